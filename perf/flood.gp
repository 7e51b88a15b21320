# SPDX-License-Identifier: Apache-2.0
#
# Draws the foreground GETs of four replays: with and without a checkpoint flood,
# priorities off and on. Set before: folder, which holds NAME/foreground_get.dat.

runs   = "quiet_off quiet_on flood_off flood_on"
titles = "'quiet, priorities off' 'quiet, priorities on' 'checkpoint flood, priorities off' 'checkpoint flood, priorities on'"
colors = "#999999 #56b4e9 #d55e00 #0072b2"	# told apart by the colour-blind too

path(i) = folder . "/" . word(runs, i) . "/foreground_get.dat"

set encoding utf8
set terminal pngcairo size 1200,680 font "DejaVu Sans,12" background rgb "white"
set output folder . "/flood.png"
set logscale xy
set yrange [2e-3:1.4]
set format x ""
set xtics ("10 µs" 10, "100 µs" 100, "1 ms" 1e3, "10 ms" 1e4, "100 ms" 1e5, "1 s" 1e6, "10 s" 1e7)
set mxtics 10
set ytics ("all" 1, "50 %%  (p50)" 0.5, "10 %%" 0.1, "1 %%  (p99)" 0.01)
set grid xtics ytics lt 1 lc rgb "#e4e4e4" lw 1
set border 3 lc rgb "#555555"
set tics nomirror textcolor rgb "#333333"
set xlabel "latency of a request's foreground GET, from its scheduled time (log scale)" textcolor rgb "#333333"
set ylabel "share of batches that took longer" textcolor rgb "#333333" offset 1
set title "What priorities are for: foreground GETs beside a checkpoint that never ends" textcolor rgb "#111111"
set bmargin 7.5
set rmargin 5
set key at screen 0.53, screen 0.08 center horizontal maxrows 2 reverse Left samplen 3 width 2
plot for [i=1:4] path(i) using 1:2 with steps lw 2.5 \
	lc rgb word(colors, i) title word(titles, i)
set terminal svg size 1200,680 font "DejaVu Sans,12" background rgb "white"
set output folder . "/flood.svg"
replot
