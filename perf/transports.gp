# SPDX-License-Identifier: Apache-2.0
#
# Draws one trace by each transport: its foreground GETs and, dashed, its checkpoints.
# Set before: folder, which holds NAME/foreground_get.dat and NAME/checkpoint.dat.

runs   = "shm tcp rdma"
titles = "'shared memory' 'TCP, two hosts' 'RDMA, two hosts (simulated: not a latency)'"
colors = "#009e73 #0072b2 #d55e00"	# told apart by the colour-blind too

path(i, what) = folder . "/" . word(runs, i) . "/" . what . ".dat"
there(i) = system("test -s '" . path(i, "foreground_get") . "' && echo 1 || echo 0") + 0
drawn = ""
do for [i=1:words(runs)] { if (there(i)) { drawn = drawn . " " . i } }
run(k) = word(drawn, k) + 0

set encoding utf8
set terminal pngcairo size 1200,680 font "DejaVu Sans,12" background rgb "white"
set output folder . "/transports.png"
set logscale xy
set yrange [2e-3:1.4]
set format x ""
set xtics ("10 µs" 10, "100 µs" 100, "1 ms" 1e3, "10 ms" 1e4, "100 ms" 1e5, "1 s" 1e6, "10 s" 1e7)
set mxtics 10
set ytics ("all" 1, "50 %%  (p50)" 0.5, "10 %%" 0.1, "1 %%  (p99)" 0.01)
set grid xtics ytics lt 1 lc rgb "#e4e4e4" lw 1
set border 3 lc rgb "#555555"
set tics nomirror textcolor rgb "#333333"
set xlabel "latency of a batch, from its scheduled time (log scale)" textcolor rgb "#333333"
set ylabel "share of batches that took longer" textcolor rgb "#333333" offset 1
set title "One KV-cache trace by three transports\n{/*0.8 every byte read was verified; solid: foreground GET, dashed: checkpoint}" \
	textcolor rgb "#111111"
set bmargin 7.5
set rmargin 5
set key at screen 0.53, screen 0.08 center horizontal maxrows 1 reverse Left samplen 3 width 2
plot for [k=1:words(drawn)] path(run(k), "foreground_get") using 1:2 with steps lw 2.5 \
		lc rgb word(colors, run(k)) title word(titles, run(k)), \
	for [k=1:words(drawn)] path(run(k), "checkpoint") using 1:2 with steps lw 1.5 dt 2 \
		lc rgb word(colors, run(k)) notitle
set terminal svg size 1200,680 font "DejaVu Sans,12" background rgb "white"
set output folder . "/transports.svg"
replot
