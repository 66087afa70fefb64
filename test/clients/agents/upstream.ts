import type { Recorded, Reply } from '../../emulators/emulator.ts'
import { dialectOf, type Usage } from './dialects.ts'
import { ScriptedModel } from './scripted-model.ts'

/** What a provider has stated about one request of a conversation. */
export type Statement = {
  conversation: string
  provider: string
  model: string
  /** `whole`, `refused`, the fault, or `unfinished` while its bytes are sent or when the gateway went away. */
  end: string
  /** Null for a request that failed before its answer began. */
  usage: Usage | null
}
/** What the providers tell about a conversation. */
export type Account = { statements: Statement[]; compactions: number }

/** The providers of conversations with agents: one scripted model behind every dialect. */
export class AgentUpstream {
  readonly #model = new ScriptedModel()
  readonly #statements: Statement[] = []

  /** A reply that answers the requests of conversations, and any other as `fallback` does. */
  reply(provider: string, fallback: Reply): Reply {
    return (request, response) => {
      const reply = this.#answer(provider, request) ?? fallback
      return reply(request, response)
    }
  }

  accountOf(conversation: string): Account {
    const statements = this.#statements.filter(one => one.conversation === conversation)
    return { statements, compactions: this.#model.compactionsOf(conversation) }
  }

  #answer(provider: string, request: Recorded): Reply | null {
    const dialect = request.body && dialectOf(provider, request)
    if (!dialect) return null
    const decision = this.#model.decide({ raw: request.raw.toString(), ...dialect.read(request) })
    if (!decision) return null
    const { conversation, answer, fault } = decision
    const statement = { conversation, provider, model: dialect.modelOf(request) }
    const refusal = dialect.refusalOf(request)
    if (refusal) return this.#stated({ ...statement, end: 'refused', usage: null }, refusal)
    const usage = dialect.usageOf(request, answer)
    if (fault === 'event' || fault === 'cut' || fault === 'early')
      return this.#stated({ ...statement, end: fault, usage }, dialect.broken(request, answer, usage, fault))
    if (fault) return this.#stated({ ...statement, end: fault, usage: null }, dialect.faults[fault])
    return this.#stated({ ...statement, end: 'unfinished', usage }, dialect.reply(request, answer, usage))
  }

  /** Keeps a statement; an answer is whole once its bytes have left. */
  #stated(statement: Statement, reply: Reply): Reply {
    this.#statements.push(statement)
    return (request, response) => {
      response.once('finish', () => {
        if (statement.end === 'unfinished') statement.end = response.statusCode === 200 ? 'whole' : 'refused'
      })
      return reply(request, response)
    }
  }
}
