#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Jobs with partitions of their own, made and ended by API while a fabric runs, and the scripts for Slurm.
set -euo pipefail
cd "$(dirname "$0")/.."
. lib/tap.sh
. lib/nodes.sh
. lib/fabric.sh
trap fabric_down EXIT
slurm=$(cd ../userspace/slurm && pwd)

# base NODE: its connections that are no job's, as the kernel shows them.
base() { on "$1" superp -j conn show | jq -S 'map(select(.partition == 0))'; }
base_lives() { superp -j fabric conns | jq -r 'map(select(.job == null) | "\(.connection) \(.life)") | join(", ")'; }
# of_token NODE TOKEN: how many of its connections are in the partition.
of_token() { on "$1" superp -j conn show | jq --argjson token "$2" 'map(select(.partition == $token)) | length'; }
# cid NODE TOKEN PEER: local id of the connection to the peer in the partition.
cid() {
	on "$1" superp -j conn show | jq --argjson token "$2" --arg peer "10.23.0.$(number "$3")" \
		'.[] | select(.partition == $token and ."remote-addr" == $peer) | ."local-cid"'
}
token() { superp fabric job token "$1"; }

makes_job() {
	base fx1 >"$folder/base"
	superp fabric job create j1 'fx[1-3]' --ext --wait 60 || { why; return 1; }
	tap_equal "2 2 2 0" "$(for node in "${nodes[@]}"; do of_token "$node" "$(token j1)"; done | xargs)" \
		"connections in the partition" || return 1
	tap_equal "$(cat "$folder/base")" "$(base fx1)" "other connections of fx1" || return 1
	tap_equal 9 "$(state .connections_running)" "connections that run"
}

# In the partition a program has what it wants; over the connection of the file its region is shut, (3.0).
partition_holds() {
	local partition
	partition=$(token j1)
	serve fx1 --size 1M --partition "$partition" || return 1
	on fx2 superp xfer write 10.23.0.1 --remote "$remote" --length 256K --verify --cid "$(cid fx2 "$partition" fx1)" || return 1
	tap_refused '(3.0)' on fx2 superp xfer write 10.23.0.1 --remote "$remote" --length 4K || return 1
	tap_refused '(3.0)' on fx4 superp xfer write 10.23.0.1 --remote "$remote" --length 4K || return 1
	kill "$server"
	wait "$server" || return 1
}

same_again() {
	local before
	before=$(superp -j fabric job show j1)
	tap_equal "$before" "$(superp -j fabric job create j1 'fx3,fx[1-2]' --ext --wait 60)" "the same job" || return 1
	tap_refused 'there is a job j1 already, on fx1,fx2,fx3' superp fabric job create j1 'fx[1-4]' --ext || return 1
	tap_refused 'with other nodes or settings' superp fabric job create j1 'fx[1-3]'
}

refusals() {
	local generation
	generation=$(state .generation)
	tap_refused 'there is no node fx5; describe it in a table [[nodes]]' superp fabric job create j2 'fx[1-5]' || return 1
	tap_refused '"fx[1-" has a "[" without a "]"; write a range as' superp fabric job create j2 'fx[1-' || return 1
	tap_refused 'window 7 is outside 16..1024' superp fabric job create j2 'fx[1-2]' --window 7 || return 1
	sed 's/fx\[1-4\]/fx[2-4]/' "$folder/fabric.toml" >"$folder/less.toml"
	tap_refused 'the job j1 is on fx1, and fx1 would be removed' superp fabric apply "$folder/less.toml" || return 1
	tap_equal "$generation" "$(state .generation)" configuration
}

# Who may know the number does, and nobody else is told.
token_is_told_to_few() {
	local partition
	partition=$(token j1)
	tap_refused 'is told to operators and its nodes only' superp fabric --tls "$folder/viewer" job token j1 || return 1
	tap_refused 'fx4 has the role agent; GET /v1/jobs/j1 needs' superp fabric --tls "$folder/fx4" job token j1 || return 1
	tap_equal "$partition" "$(superp fabric --tls "$folder/fx3" job token j1)" "token for its node" || return 1
	{
		superp fabric events && superp fabric audit && superp -j fabric conns && superp fabric --tls "$folder/viewer" -j job list &&
			cat "$folder/manager" "$folder"/agent-*
	} >"$folder/told" || return 1
	! grep -F "$partition" "$folder/told" || { echo "the token is told"; return 1; }
}

# A manager that is killed knows the jobs again; a node whose agent is gone holds up only jobs of its own.
manager_and_agent_killed() {
	local partition lives
	partition=$(token j1) lives=$(base_lives)
	kill -KILL "$manager" "${agents[fx4]}"
	wait "$manager" "${agents[fx4]}" || true
	manager || { why; return 1; }
	superp fabric job create j1 'fx[1-3]' --ext --wait 60 || { why; return 1; }
	tap_equal "$partition" "$(token j1)" token || return 1
	superp fabric job create j2 'fx[1-2]' --wait 60 || { why; return 1; }
	tap_refused 'the job j3 does not run after 2 s, and it is removed again' superp fabric job create j3 'fx[3-4]' --wait 2 || return 1
	tap_refused 'node fx4: waiting for the start of its operations: connection refused' \
		superp fabric job create j3 'fx[3-4]' --wait 2 || return 1
	tap_equal "j1 j2" "$(superp -j fabric job list | jq -r 'map(.name) | join(" ")')" jobs || return 1
	agent fx4
	nodes_wait 60 eval '[ "$(state ".waiting | length")" = 0 ]' || { why; return 1; }
	tap_equal "$lives" "$(base_lives)" "lives of the other connections"
}

# A job ends while others go on, traffic over the fabric's own connections as well.
removes_jobs() {
	local partition pinger
	partition=$(token j1)
	ip netns exec fx1 superp ping 10.23.0.2 -c 60 -i 0.05 -W 20 -q &
	pinger=$!
	superp fabric job remove j1 || return 1
	tap_refused 'there is no job j1' superp fabric job remove j1 || return 1
	superp fabric job remove --ignore-not-found j1 || return 1
	nodes_wait 30 eval '[ "$(of_token fx1 '"$partition"')$(of_token fx2 '"$partition"')$(of_token fx3 '"$partition"')" = 000 ]' ||
		{ why; return 1; }
	tap_equal 1 "$(of_token fx1 "$(token j2)")" "connections of the other job" || return 1
	superp fabric job remove j2 || return 1
	wait "$pinger" || { echo "the ping failed"; return 1; }
	nodes_wait 30 all_run || { why; return 1; }
	superp fabric job create j1 'fx[1-3]' --ext --wait 60 || { why; return 1; }
	[ "$(token j1)" != "$partition" ] || { echo "the token is used again"; return 1; }
	superp fabric job remove j1
}

# script CONTEXT SCRIPT UID VARIABLE…: runs it as Slurm does in this place, with the certificate of fx1 on nodes.
script() {
	local tls=operator in=()
	case $1 in *_slurmctld) ;; *) tls=fx1 in=(ip netns exec fx1) ;; esac
	printf 'PATH=%s\nSUPERP_MANAGER=%s\nSUPERP_TLS=%s\nSUPERP_JOB_OPTIONS=--ext\n' \
		"$PATH" "$SUPERP_MANAGER" "$folder/$tls" >"$folder/slurm.conf"
	"${in[@]}" setpriv --reuid="$3" --clear-groups env -i SUPERP_SLURM_CONF="$folder/slurm.conf" SLURM_SCRIPT_CONTEXT="$1" \
		SLURM_JOB_ID=41 SLURM_JOB_UID=65534 "${@:4}" "$slurm/$2"
}

slurm_scripts() {
	local partition exported
	script prolog_slurmctld superp-prolog 0 SLURM_JOB_NODELIST='fx[1-2,4]' >"$folder/told" || { why; return 1; }
	tap_equal "" "$(cat "$folder/told")" "output, which ends in a log" || return 1
	partition=$(token slurm-41)
	script prolog_slurmd superp-prolog 0 || return 1
	exported=$(script prolog_task superp-prolog 65534) || return 1
	tap_equal "export SUPERP_PARTITION=$partition" "$exported" "for the task" || return 1
	tap_refused 'Permission denied' script prolog_task superp-prolog 65533 || return 1
	# What a task does with it.
	export SUPERP_PARTITION=$partition
	serve fx1 --size 64K || return 1
	on fx4 superp xfer write 10.23.0.1 --remote "$remote" --length 4K --verify || return 1
	tap_refused 'no established connection to 10.23.0.3 is in the partition' on fx4 superp ping 10.23.0.3 -c 1 || return 1
	unset SUPERP_PARTITION
	tap_refused '(3.0)' on fx4 superp xfer write 10.23.0.1 --remote "$remote" --length 4K || return 1
	kill "$server"
	wait "$server" || return 1
	# Queued again, on other nodes.
	script prolog_slurmctld superp-prolog 0 SLURM_JOB_NODELIST='fx[3-4]' || { why; return 1; }
	[ "$(token slurm-41)" != "$partition" ] || { echo "the token is used again"; return 1; }
	script epilog_slurmd superp-epilog 0 || return 1
	[ ! -e /run/superp-jobs/41 ] || { echo "the token is still there"; return 1; }
	script epilog_slurmctld superp-epilog 0 || return 1
	script epilog_slurmctld superp-epilog 0 || { echo "the end of what has ended is a failure"; return 1; }
	tap_equal 0 "$(superp -j fabric job list | jq length)" jobs || return 1
	tap_refused 'there is no node fx9' script prolog_slurmctld superp-prolog 0 SLURM_JOB_NODELIST=fx9 || return 1
	tap_refused 'not for a shell' env -u SLURM_SCRIPT_CONTEXT SLURM_JOB_ID=1 "$slurm/superp-prolog"
}

ends_with_fabric() {
	superp fabric job create j1 'fx[1-4]' --wait 60 || { why; return 1; }
	superp fabric shutdown --wait 60 || { why; return 1; }
	tap_equal 0 "$(superp -j fabric job list | jq length)" jobs || return 1
	tap_refused 'the fabric is down' superp fabric job create j1 'fx[1-4]' || return 1
	apply || return 1
	all_run || { why; return 1; }
}

network_up
certificates
for node in "${nodes[@]}"; do agent "$node"; done
manager
fabric sunh
apply
tap_case "a job is made beside what runs, which is not touched" makes_job
tap_case "its regions are shut to the other connections" partition_holds
tap_case "the same job again is the same job, another one is refused" same_again
tap_case "what cannot be is refused, and nothing changes" refusals
tap_case "its token is told to operators and to its nodes only" token_is_told_to_few
tap_case "manager and agent are killed; jobs of other nodes go on and are made" manager_and_agent_killed
tap_case "jobs end; their connections are gone, the others are not touched" removes_jobs
tap_case "Slurm: prologs and epilogs" slurm_scripts
tap_case "jobs end with the fabric" ends_with_fabric
tap_end
