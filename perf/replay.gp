# SPDX-License-Identifier: Apache-2.0
#
# Draws what replay wrote to a folder: for each kind of traffic, the share of
# batches that took longer than x. Set before: folder, pingpong_us, memcpy_us,
# tcp_us (0: within one host), block_kib, ttft_us, where.

files  = "foreground_get background_prefetch checkpoint checkpoint_flood"
titles = "'foreground GET' 'background prefetch' 'checkpoint' 'checkpoint flood'"
colors = "#0072b2 #e69f00 #009e73 #999999"	# told apart by the colour-blind too

path(i)  = folder . "/" . word(files, i) . ".dat"
there(i) = system("test -s '" . path(i) . "' && echo 1 || echo 0") + 0
text(us)  = us < 1 ? sprintf("%.0f ns", us * 1000) : us < 100 ? sprintf("%.1f µs", us) : \
	    us < 1000 ? sprintf("%.0f µs", us) : us < 1e5 ? sprintf("%.1f ms", us / 1000) : \
	    sprintf("%.0f ms", us / 1000)

# The second column is the share of batches at least as slow as the first: the
# slowest of those with a share of a half or more is the median. (Before any range
# is set: stats would leave out what lies beyond.)
drawn = ""
last_us = ttft_us
array legend[words(files)]
do for [i=1:words(files)] {
	if (there(i)) {
		drawn = drawn . " " . i
		stats path(i) using ($2 >= 0.5 ? $1 : NaN) nooutput
		p50 = STATS_max
		stats path(i) using ($2 >= 0.01 ? $1 : NaN) nooutput
		p99 = STATS_max
		stats path(i) using 1 nooutput
		last_us = STATS_max > last_us ? STATS_max : last_us
		legend[i] = sprintf("%s:  p50 %s,  p99 %s", word(titles, i), text(p50), \
				    text(p99))
	}
}
curve(k) = word(drawn, k) + 0

set encoding utf8
set logscale xy
set xrange [0.1:last_us * 2]
set yrange [2e-4:1.3]
set xtics ("100 ns" 0.1, "1 µs" 1, "10 µs" 10, "100 µs" 100, "1 ms" 1e3, \
	   "10 ms" 1e4, "100 ms" 1e5, "1 s" 1e6, "10 s" 1e7)
set mxtics 10
set ytics ("all" 1, "50 %%  (p50)" 0.5, "10 %%" 0.1, "1 %%  (p99)" 0.01, "0.1 %%  (p99.9)" 0.001)
set grid xtics ytics lt 1 lc rgb "#e4e4e4" lw 1
set border 3 lc rgb "#555555"
set tics nomirror textcolor rgb "#333333"
set xlabel "latency of a batch, from its scheduled time (log scale)" textcolor rgb "#333333"
set ylabel "share of batches that took longer" textcolor rgb "#333333" offset 1
set title "KV-cache trace " . where . ": latency per intent\n{/*0.8 every byte read was verified; dashed: what this machine cannot beat, and the budget}" \
	textcolor rgb "#111111"
set bmargin 7.5
set rmargin 5
set key at screen 0.53, screen 0.075 center horizontal maxrows 2 reverse Left samplen 3 width 2

mark(x, text, n, c) = sprintf("set arrow %d from %g, graph 0 to %g, graph 1 nohead back dt 2 lw 1.5 lc rgb '%s'; set label %d '%s' at %g, graph 0.03 rotate by 90 textcolor rgb '%s' offset 1.1,0 font ',10'", \
	n, x, x, c, n, text, x, c)
if (pingpong_us > 0) eval mark(pingpong_us, "cache-line ping-pong " . text(pingpong_us), 1, "#666666")
if (tcp_us > 0) eval mark(tcp_us, sprintf("%d KiB by bare TCP sockets %s", block_kib, text(tcp_us)), 4, "#666666")
eval mark(memcpy_us, sprintf("memcpy of one %d KiB block %s", block_kib, text(memcpy_us)), 2, "#666666")
eval mark(ttft_us, "deadline " . text(ttft_us), 3, "#cc3311")

set terminal pngcairo size 1200,720 font "DejaVu Sans,12" background rgb "white"
set output folder . "/replay.png"
plot for [k=1:words(drawn)] path(curve(k)) using 1:2 with steps lw 2.5 \
	lc rgb word(colors, curve(k)) title legend[curve(k)]

set terminal svg size 1200,720 font "DejaVu Sans,12" background rgb "white"
set output folder . "/replay.svg"
replot
