import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import type { Platform } from '../../shared/platform.ts'
import { checkLedger, type Invariant } from '../../shared/wallet/check.ts'
import { type Command, command } from './parse.ts'

/** A running gateway moves money between the reads of a check: a violation counts once all of these checks have found one. */
const maxChecks = 4
const checkIntervalMs = 500

async function confirmLedgerCheck({ db, redis, clock }: Platform): Promise<Invariant[]> {
  for (let attempt = 1; ; attempt++) {
    const invariants = await checkLedger(db, redis, clock.now())
    if (attempt === maxChecks || invariants.every(({ breaches }) => breaches.length === 0)) return invariants
    await sleep(checkIntervalMs)
  }
}

export const ledger: Command[] = [
  command({
    name: 'ledger check',
    summary: 'Checks that balances, ledger, request log and Redis agree; exits with 1 if they do not.',
    help: '',
    flags: z.strictObject({}),
    async run(services) {
      const invariants = await confirmLedgerCheck(services)
      const ok = invariants.every(({ breaches }) => breaches.length === 0)
      const lines = invariants.flatMap(({ name, checked, breaches }) => [
        `${breaches.length === 0 ? 'ok    ' : 'BREACH'} ${name} (${checked} checked)`,
        ...breaches.map(breach => `         ${breach}`),
      ])
      return { data: { ok, invariants }, text: lines.join('\n'), exitCode: ok ? 0 : 1 }
    },
  }),
]
