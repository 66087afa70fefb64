#!/bin/sh
# Runs a process of the gateway: web (default), worker, migrate, or operator with its arguments. Any other command, such as
# sh, is run as it is.
set -eu
case ${1:-web} in
  web) exec node --min-semi-space-size=8 --max-semi-space-size=16 --no-allocation-site-pretenuring --no-memory-reducer-favors-memory --retain-maps-for-n-gc=100 --heap-growing-percent=150 --import ./shared/base/code-cache.js api/server.ts ;;
  worker) exec node --max-semi-space-size=16 --no-allocation-site-pretenuring --no-memory-reducer-favors-memory --retain-maps-for-n-gc=100 --max-old-space-size=1024 --import ./shared/base/code-cache.js workers/main.ts ;;
  migrate) shift && exec node prisma/migrate.ts "$@" ;;
  operator) shift && exec node --import ./shared/base/code-cache.js api/operator.ts "$@" ;;
  *) exec "$@" ;;
esac
