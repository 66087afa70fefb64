import { contextLength, failure } from '../../../emulators/openai.ts'
import { prompt } from '../../../support/chat/fault-replies.ts'
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
} from '../../../support/chat/fault-table.ts'
import { ask, bookedOf, type FaultModel, paidNano, startFaultWorld } from '../../../support/chat/faults.ts'
import { saying } from '../../../support/chat/gateway.ts'
import { type ExecutionContext, test } from '../../../support/test.ts'
import { use } from '../../../support/use.ts'

const columns = setups.flatMap(setup => [true, false].map(stream => ({ setup, stream })))
const cells: TableCell[] = Object.keys(tableFaults).flatMap(name => columns.map(column => ({ name, ...column })))
const outages: TableCell[] = columns.map(column => ({ name: 'S15', ...column }))
const told = new Map<string, string>()

/** Models by the length of the prompts they take; that of the tests is longer than 10 and may be longer than 100. */
const peers = Array.from({ length: 6 }, (_, i) => `peer-${i}`)
const sized: FaultModel[] = [
  { id: 'tiny', providers: ['p1'], contextLength: 10 },
  { id: 'small', providers: ['p1'], contextLength: 20 },
  { id: 'overflowing', providers: ['p1'], contextLength: 1_000 },
  ...peers.map(id => ({ id, providers: ['p1'], quality: 90, contextLength: 100 })),
  { id: 'failing', providers: ['p2'], quality: 20, contextLength: 2_000 },
  { id: 'large', providers: ['p2'], quality: 10, contextLength: 2_000 },
]
const world = use(
  test,
  () => {
    const models = [...cells, ...outages].flatMap(tableModels)
    return startFaultWorld([...models, ...sized], tableEnv)
  },
  (it, t) => it.close(t),
)
test.before(() => {
  for (const id of [...peers, 'overflowing']) world.p1.always(id, contextLength)
  world.p2.always('failing', failure(503, 'Down.', 'server_error', null))
})

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
      // A stream that keep-alives have opened ends with an error event instead.
      const isRefused = ({ status, text }: (typeof answers)[0]) =>
        status === 502 || status === 503 || /"error":/.test(text)
      for (const answer of answers) t.is(isRefused(answer), isAlone, `${answer.status} ${answer.text}`)
      world.p1.always(client.id, null)
      t.true(await isBack(world, client))
    }))
}

const overflowAnswer = (model: string, more: object) => async (t: ExecutionContext) => {
  const account = await world.gateway.account()
  const answer = await ask(world, account.live, model, more)
  const { costNano } = await bookedOf(world, account, answer)
  t.is(await paidNano(world, account), Number(costNano))
  return answer
}

for (const stream of [false, true]) {
  test(`200 from a larger model of \`models\` when the input is too long for the one that is named (stream: ${stream})`, async t => {
    const { status, headers } = await overflowAnswer('tiny', { stream, models: ['small', 'large'] })(t)
    t.is(status, 200)
    t.is(headers.get('x-gateway-model'), 'large')
    t.is(headers.get('x-gateway-attempts'), '1')
  })

  test(`400 of the first model when larger ones fail (stream: ${stream})`, async t => {
    const told = await overflowAnswer('overflowing', { stream, models: ['failing'] })(t)
    t.is(told.status, 400)
    t.is(told.headers.get('x-gateway-attempts'), '4', 'the larger one was asked three times')
    const counted = await overflowAnswer('tiny', { stream, models: ['failing'] })(t)
    t.is(counted.status, 400)
    for (const { text } of [told, counted]) t.is(JSON.parse(text).error.code, 'context_length_exceeded')
    t.regex(JSON.parse(counted.text).error.message, /maximum context length is 10 tokens/)
  })

  test(`200 from a larger model that \`auto\` would not have chosen among its best (stream: ${stream})`, async t => {
    const account = await world.gateway.account({ model_allowlist: [...peers, 'large'], mode: 'quality' })
    const answer = await ask(world, account.live, 'auto', { stream })
    t.is(answer.status, 200, answer.text)
    t.is(answer.headers.get('x-gateway-model'), 'large')
    t.is(answer.headers.get('x-gateway-attempts'), '2', 'none of the same size is asked')
    await bookedOf(world, account, answer)
  })
}

test('400 when no model that may be chosen is larger', async t => {
  const account = await world.gateway.account({ model_allowlist: peers, mode: 'quality' })
  const answer = await ask(world, account.live, 'auto', {})
  t.is(answer.status, 400)
  t.is(JSON.parse(answer.text).error.code, 'context_length_exceeded')
  t.is(answer.headers.get('x-gateway-attempts'), '1')
})

test('a decision tells that the input is too long for the model that is named', async t => {
  const { live } = await world.gateway.account()
  const body = saying('tiny', prompt.text, { models: ['large'] })
  const response = await world.gateway.fetch('/v1/route', { key: live, body })
  const decision = (await response.json()) as { model: string; reason: string }
  t.is(decision.model, 'large')
  t.regex(decision.reason, /^fallback, as the input is too long for tiny; /)
})

test.after.always('the table', t => {
  const rows = Object.keys(tableFaults).map(name => {
    const row = columns.map(column => told.get(nameOf({ name, ...column })) ?? '')
    return `| ${name} | ${row.join(' | ')} |`
  })
  const names = columns.map(({ setup, stream }) => `${setup}, ${stream ? 'stream' : 'plain'}`)
  t.log([`| | ${names.join(' | ')} |`, `|${' --- |'.repeat(columns.length + 1)}`, ...rows].join('\n'))
  t.pass()
})
