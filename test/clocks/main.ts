// The clock matrix: every kind of work runs while the wall clock of the web process, the worker, PostgreSQL or Redis steps
// away and back. Whatever then differs from right clocks is a fault, printed with its role, offset and kind of work:
// `npm run test:clocks`, or a part of it by `npm run test:clocks -- --role web --offset 600,-600` (seconds).
import { parseArgs } from 'node:util'
import { dayMs } from '../../shared/base/time.ts'
import { type Role, roles } from '../support/clocks/clocked-stack.ts'
import type { Fault } from './cell.ts'
import { offsetsMs, runCells } from './matrix.ts'

const { values } = parseArgs({ options: { role: { type: 'string' }, offset: { type: 'string' } } })
const chosenRoles = values.role?.split(',').map(roleOf) ?? roles
const chosenOffsetsMs = values.offset?.split(',').map(offsetOf) ?? offsetsMs

let failedCells = 0
for (const role of chosenRoles) {
  const cells = chosenOffsetsMs.map(offsetMs => ({ [role]: offsetMs }))
  await runCells(cells, (steps, faults, tookMs) => report(role, steps[role]!, faults, tookMs))
}
console.log(failedCells === 0 ? 'all cells passed' : `${failedCells} cells failed`)
process.exit(Math.min(1, failedCells))

function report(role: Role, offsetMs: number, faults: readonly Fault[], tookMs: number): void {
  const amount = Math.abs(offsetMs) < dayMs ? `${offsetMs / 1_000} s` : `${offsetMs / dayMs} d`
  const cell = `${role} ${offsetMs < 0 ? '' : '+'}${amount}`
  for (const { work, when, difference } of faults) console.log(`  ${cell}: ${work}, ${when}: ${difference}`)
  console.log(`${cell}: ${faults.length === 0 ? 'passed' : 'FAILED'} after ${Math.round(tookMs / 1_000)} s`)
  failedCells += Math.min(1, faults.length)
}

function roleOf(text: string): Role {
  const role = roles.find(name => name === text)
  if (!role) throw new Error(`--role: ${text} is none of ${roles.join(', ')}`)
  return role
}

function offsetOf(text: string): number {
  const offsetMs = Number(text) * 1_000
  if (text === '' || !Number.isInteger(offsetMs)) throw new Error(`--offset: ${text} is no number of seconds`)
  return offsetMs
}
