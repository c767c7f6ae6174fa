#!/usr/bin/env bash
# mpirun.sh N COMMAND...: N ranks on this machine; the settings are in jobscripts/local-mpirun.sh.
exec "$(dirname "${BASH_SOURCE[0]}")/../jobscripts/local-mpirun.sh" "$@"
