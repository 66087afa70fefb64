import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { accountOf, agentKey, origin } from '../support/environment.ts'
import { RecordingProxy } from '../support/recording-proxy.ts'
import { type Agent, agents } from './agents.ts'
import { AgentSession } from './session.ts'
import { lastWordsOf, promptFor } from './scripted-model.ts'
import { editOf, fileOf, original } from './tools.ts'

const programs = join(import.meta.dirname, 'node_modules/.bin')
const models = (process.env.MODELS ?? 'gpt-6-luna').split(',')
let index = 0

for (const agent of agents)
  for (const model of models) {
    const key = agentKey(index++)
    test.serial(`${agent.name}, ${model}`, async t => {
      t.timeout(600_000)
      const conversation = `ag${randomBytes(6).toString('hex')}`
      const proxy = await RecordingProxy.start(origin)
      const contextTokens = typeof agent.compaction === 'object' && 'contextTokens' in agent.compaction ? agent.compaction.contextTokens : 200_000
      const session = await AgentSession.start(agent, { origin: proxy.url, key, model, contextTokens }, programs)
      try {
        const go = async (part: number, steps: string[], faults: string[] = []) => {
          for (const [i, step] of steps.entries()) if (step === 'read') await session.write(fileOf({ conversation, part, step: i + 1, folder: '.' }), original)
          const from = proxy.exchanges.length
          const started = Date.now()
          const run = await session.prompt(promptFor(conversation, part, session.work, steps, faults))
          t.log(part, `${Date.now() - started} ms`, run.exitCode, proxy.exchanges.slice(from).map(({ path, status }) => `${path} ${status}`).join(' '))
          for (const x of proxy.exchanges.slice(from)) if (x.status >= 400) t.log(x.answer.slice(0, 400))
          if (!run.output.includes(lastWordsOf(conversation, part))) t.log('OUTPUT', run.output.slice(-1500))
          for (const [i, step] of steps.entries()) if (step === 'edit') t.log('edit', (await session.read(fileOf({ conversation, part, step: i, folder: '.' }))).includes(editOf({ conversation, part, step: i + 1, folder: '.' })))
        }
        await go(1, ['shell', 'read', 'edit', 'parallel'], ['overloaded@2'])
        await go(2, ['big', 'big', 'big', 'big', 'shell'], [])
        const compaction = agent.compaction
        if (typeof compaction === 'object' && 'prompt' in compaction) t.log(await session.prompt(compaction.prompt))
        await go(3, ['shell', 'read', 'edit', 'shell'], ['cut@3'])
        const account = await accountOf(conversation)
        t.log(account.compactions, account.statements.map(({ end, model, refusal }) => `${model}:${end}${refusal ?? ''}`).join(' '))
        t.pass()
      } finally {
        await session.close()
        await proxy.close()
      }
    })
  }
