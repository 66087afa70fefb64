import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { accountOf, agentKey, origin, settledWallet } from '../support/environment.ts'
import { agents, allModels } from './agents.ts'
import { type Conversation, converse, programsIn } from './conversation.ts'
import { costOf } from './money.ts'
import type { Statement } from './upstream.ts'

const isLong = process.env.CLIENTS_ALL === '1'
const maxErrorUsd = 1e-6
/** A cut stream is charged by an estimate of what was sent and received. */
const maxEstimate = 2

test('docs/agents.md names the versions of the agents', t => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/agents.md'), 'utf8')
  const { dependencies } = JSON.parse(readFileSync(join(import.meta.dirname, 'package.json'), 'utf8'))
  const missing = agents.filter(agent => !page.includes(`| ${agent.name} | ${dependencies[agent.package]} |`))
  t.deepEqual(
    missing.map(({ name }) => name),
    [],
  )
})

const programs = programsIn(import.meta.dirname)
/** Not every registry has every platform's program. */
const installed = agents.filter(({ program }) => existsSync(join(programs, program)))
const leftOut = agents.filter(agent => !installed.includes(agent)).map(({ name }) => name)
if (leftOut.length > 0) console.log(`left out, without a program for this platform: ${leftOut.join(', ')}`)

const cells = installed.flatMap(agent => (isLong ? allModels : agent.models).map(model => ({ agent, model })))
for (const [index, { agent, model }] of cells.entries())
  test.serial(`ok: ${agent.name} on ${model}: edits, a resume, a compaction, a 529 and a cut stream`, async t => {
    t.timeout(900_000)
    const key = agentKey(index)
    const target = { origin, key, model, programs }
    const before = await settledWallet(key)
    const conversation = await converse(agent, target, isLong)
    const { statements, compactions } = await accountOf(conversation.name)
    const { said } = agent.compaction
    t.log(summaryOf(conversation, statements, compactions))
    for (const { run, hasEnded, missingEdits } of conversation.parts) {
      t.is(run.exitCode, 0, run.output)
      t.true(hasEnded, run.output)
      t.deepEqual(missingEdits, [])
    }
    const isPlanned = (answer: string) => said !== undefined && answer.includes('context_length_exceeded')
    const refusals = conversation.exchanges.filter(({ status, answer }) => status >= 400 && !isPlanned(answer))
    t.deepEqual(
      refusals.map(({ path, status, answer }) => [path, status, answer]),
      [],
    )
    const ends = new Set(statements.map(({ end }) => end))
    for (const end of ['whole', 'overloaded', agent.cut ?? 'cut']) t.true(ends.has(end), `a request ended ${end}`)
    t.false(ends.has('refused'), 'the providers take every request')
    const isCompacted = compactions > 0 || conversation.parts.some(({ run }) => said && run.output.includes(said))
    t.true(isCompacted || agent.uncompacted?.model === model, 'it was compacted')
    const after = await settledWallet(key)
    t.is(after.reserved_usd, 0)
    checkMoney(t, before.balance_usd - after.balance_usd, statements)
  })

/** What was charged is what the providers stated, and for a cut stream at most an estimate. */
function checkMoney(t: ExecutionContext, chargedUsd: number, statements: Statement[]): void {
  const costOfAll = (ends: string[]) =>
    statements.filter(({ end }) => ends.includes(end)).reduce((sum, statement) => sum + costOf(statement), 0)
  const stated = costOfAll(['whole'])
  const broken = costOfAll(['cut', 'early', 'event', 'unfinished'])
  const message = `charged ${chargedUsd}, stated ${stated}, and ${broken} of broken answers`
  t.log(message)
  t.true(chargedUsd > stated - maxErrorUsd && chargedUsd < stated + broken * maxEstimate + maxErrorUsd, message)
}

/** One line for the table of docs/agents.md. */
function summaryOf({ parts, exchanges }: Conversation, statements: Statement[], compactions: number): string {
  const count = (end: string) => statements.filter(one => one.end === end).length
  const ends = [...new Set(statements.map(({ end }) => end))].map(end => `${count(end)} ${end}`).join(', ')
  const largest = Math.max(...statements.map(({ usage }) => (usage ? usage.input + usage.cached_input : 0)))
  return `${largest} tokens, ${parts.length} prompts, ${exchanges.length} requests; at the providers ${ends}; ${compactions} compactions`
}
