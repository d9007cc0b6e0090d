# For the scripts beside it: makes text files of the King James Bible; sets `data`.
data=build/text
mkdir -p "$data"
# A verse a line, without its number; the last twentieth is for the test.
bible -f 'Gen1:1-Rev22:21' | sed 's/^[^ ]* //' > "$data/all.txt"
head -n 29500 "$data/all.txt" > "$data/train.txt"
tail -n +29501 "$data/all.txt" > "$data/test.txt"
