# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # variables for those who source this
# A report for people, in which every check has a verdict; sourced.

checked=0 wrong=0 verdict=''
bold='' red='' green='' plain=''
if [ -n "${TERM:-}" ] && [ "$TERM" != dumb ]; then
	bold=$'\e[1m' red=$'\e[31m' green=$'\e[32m' plain=$'\e[0m'
fi

# judge YES-OR-NOT TEXT: counts a check and sets verdict.
judge() {
	checked=$((checked + 1))
	if [ "$1" = yes ]; then
		verdict=$green$2$plain
	else
		verdict="${red}WRONG  $2$plain"
		wrong=$((wrong + 1))
	fi
}

# report_end: the last line; fails if anything was wrong.
report_end() {
	printf '\n  %s%d of %d verified%s\n\n' "$bold" $((checked - wrong)) "$checked" "$plain"
	[ "$wrong" = 0 ]
}
