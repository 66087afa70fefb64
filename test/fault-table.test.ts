import test from 'ava'
import { failure } from './emulators/openai.ts'
import {
  expectedOutcome,
  isBack,
  runCell,
  setups,
  type TableCell,
  tableClient,
  tableEnv,
  tableFaults,
  tableModels,
} from './support/fault-table.ts'
import { type FaultWorld, startFaultWorld } from './support/faults.ts'

const columns = setups.flatMap(setup => [true, false].map(stream => ({ setup, stream })))
const cells: TableCell[] = Object.keys(tableFaults).flatMap(name => columns.map(column => ({ name, ...column })))
const outages: TableCell[] = columns.map(column => ({ name: 'S15', ...column }))
const told = new Map<string, string>()

let world: FaultWorld
test.before(async () => {
  world = await startFaultWorld([...cells, ...outages].flatMap(tableModels), tableEnv)
})
test.after.always('every invariant of the money holds', t => world?.close(t))

const nameOf = ({ name, setup, stream }: TableCell) => `${name}, ${setup}, ${stream ? 'stream' : 'plain'}`

for (const cell of cells) {
  const expected = expectedOutcome(cell)
  const { title } = tableFaults[cell.name]!
  test(`${expected} when ${nameOf(cell)}: ${title}`, t =>
    world.inTurn(async () => {
      const { outcome, tookMs } = await runCell(t, world, cell)
      told.set(nameOf(cell), `${outcome} ${(tookMs / 1_000).toFixed(1)}s`)
      t.is(outcome, expected)
    }))
}

for (const cell of outages) {
  const isAlone = cell.setup === 'one'
  test(`${isAlone ? 'safe' : 'pass'} while the primary is down, and back with it, when ${nameOf(cell)}`, t =>
    world.inTurn(async () => {
      const client = await tableClient(world, cell)
      world.p1.always(client.id, failure(503, 'Down.', 'server_error', null))
      const answers = await Promise.all(Array.from({ length: 5 }, () => client.ask()))
      for (const { status } of answers) t.true(isAlone ? status === 502 || status === 503 : status === 200, `${status}`)
      world.p1.always(client.id, null)
      t.true(await isBack(world, client))
    }))
}

test.after('the table', t => {
  const rows = Object.keys(tableFaults).map(name => {
    const row = columns.map(column => told.get(nameOf({ name, ...column })) ?? '')
    return `| ${name} | ${row.join(' | ')} |`
  })
  const names = columns.map(({ setup, stream }) => `${setup}, ${stream ? 'stream' : 'plain'}`)
  t.log([`| | ${names.join(' | ')} |`, `|${' --- |'.repeat(columns.length + 1)}`, ...rows].join('\n'))
  t.pass()
})
