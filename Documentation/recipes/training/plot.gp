# SPDX-License-Identifier: GPL-2.0-or-later
# gnuplot -c plot.gp VERBS.csv IPOIB.csv PLOT.svg: both jobs of job.py by step
set datafile separator ","
set terminal svg size 800,900 dynamic
set output ARG3
set multiplot layout 3,1
set xlabel "step"
set style data linespoints
set ylabel "loss"
plot ARG1 using 1:2 title "over verbs", ARG2 using 1:2 title "by IPoIB"
set ylabel "time of the step, s"
plot ARG1 using 1:3 title "over verbs", ARG2 using 1:3 title "by IPoIB"
set ylabel "sent by node1, MiB"
plot ARG1 using 1:4 title "over verbs", ARG2 using 1:5 title "by IPoIB"
unset multiplot
