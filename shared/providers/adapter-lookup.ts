import { profileOf } from '../catalog/chat-profile.ts'
import type { ProviderRow } from '../catalog/schema.ts'
import { compacts, servesResponses, takesNamespaces } from '../catalog/traits.ts'
import type { ChatRequest } from '../kinds/chat.ts'
import type { DirectKind, DirectKinds, InstantKind, QueuedKind } from '../kinds/index.ts'
import { isCompaction, type ResponsesRequest } from '../kinds/responses.ts'
import { isClientSearch, type ResponsesTool } from '../kinds/responses-tools.ts'
import { chat as unfittedChat } from './adapters/openai/chat.ts'
import type { DirectAdapter, InstantAdapter, Protocol, QueuedAdapter, Target } from './contract.ts'
import { renamesTools } from './profile/fitted-chat.ts'
import { protocols } from './protocols.ts'
import type { RealtimeAdapter } from './realtime-contract.ts'
import { completionOverChat } from './toolkit/completion-over-chat.ts'
import { functionsOverTools, hasFunctions } from './toolkit/functions-over-tools.ts'
import { messagesOverChat } from './toolkit/messages-over-chat/adapter.ts'
import { isEnvelope } from './toolkit/reasoning-envelope.ts'
import { responsesOverChat } from './toolkit/responses-over-chat/adapter.ts'

export type Environment = 'live' | 'test'

/** A protocol with its adapter for one endpoint kind. */
export type Served<Adapter> = { adapter: Adapter; protocol: Protocol }

/** The sandbox's upstream speaks the protocol of OpenAI for these kinds, and takes what no profile restricts. */
const sandboxProtocol: Protocol = { ...protocols.openai!, direct: { ...protocols.openai!.direct, chat: unfittedChat } }

/** Finds adapters: by the provider's protocol, or those of the sandbox for test keys. Null where a kind is not served. */
export class Adapters {
  readonly #sandbox: Protocol

  constructor(sandbox: Protocol) {
    this.#sandbox = sandbox
  }

  /** The adapter for a kind at a target. `body`: the request to serve, if there is one. */
  direct<K extends DirectKind>(
    kind: K,
    target: Target,
    environment: Environment,
    body?: DirectKinds[K]['request'],
  ): Served<DirectAdapter<K>> | null {
    const protocol = environment === 'test' ? sandboxProtocol : protocols[target.provider.protocol]
    if (!protocol) return null
    const adapter = directAdapter(kind, target, protocol, { environment, body })
    if (!adapter) return null
    const hasOldFunctions = kind === 'chat' && body && hasFunctions(body as ChatRequest)
    if (hasOldFunctions) {
      const overTools = functionsOverTools(adapter as DirectAdapter<'chat'>)
      return { adapter: overTools as DirectAdapter<DirectKind> as DirectAdapter<K>, protocol }
    }
    // Its events are read then, not passed on as bytes.
    const isRead = kind === 'chat' && environment === 'live' && body && renamesTools(body as ChatRequest, target)
    return { adapter: (isRead ? { ...adapter, native: false } : adapter) as DirectAdapter<K>, protocol }
  }

  /** The adapter for a kind of queued work at a provider. */
  queued<K extends QueuedKind>(
    kind: K,
    provider: ProviderRow,
    environment: Environment,
  ): Served<QueuedAdapter<K>> | null {
    const protocol = this.#protocol(provider, environment)
    const adapter = protocol?.queued?.[kind]
    return protocol && adapter ? { adapter: adapter as QueuedAdapter<K>, protocol } : null
  }

  /** The adapter for a kind of synchronous media at a provider. */
  instant<K extends InstantKind>(
    kind: K,
    provider: ProviderRow,
    environment: Environment,
  ): Served<InstantAdapter<K>> | null {
    const protocol = this.#protocol(provider, environment)
    const adapter = protocol?.instant?.[kind]
    return protocol && adapter ? { adapter: adapter as InstantAdapter<K>, protocol } : null
  }

  /** The adapter for realtime sessions with a target. */
  realtime({ deployment, provider }: Target, environment: Environment): RealtimeAdapter | null {
    return this.#protocol(provider, environment)?.realtime?.(deployment) ?? null
  }

  #protocol(provider: ProviderRow, environment: Environment): Protocol | undefined {
    return environment === 'test' ? this.#sandbox : protocols[provider.protocol]
  }
}

/**
 * The adapter of a protocol for a kind; completions of chat models, foreign Messages and foreign Responses are served by
 * its chat.
 */
function directAdapter<K extends DirectKind>(
  kind: K,
  target: Target,
  { direct }: Protocol,
  { environment, body }: { environment: Environment; body: DirectKinds[K]['request'] | undefined },
): DirectAdapter<DirectKind> | undefined {
  const isChatModel = target.model.endpoint !== '/v1/completions'
  const { chat } = direct
  if (kind === 'completion' && isChatModel && chat) return completionOverChat(chat)
  if (kind === 'messages' && !direct.messages && chat) return messagesOverChat(chat)
  // The sandbox's upstream has no Responses.
  const isNative = environment === 'live' && servesResponses(target) && direct.responses
  const isTranslated = kind === 'responses' && !(isNative && takesRequest(target, body as ResponsesRequest))
  if (isTranslated && chat) return responsesOverChat(chat)
  return direct[kind]
}

/**
 * Whether a target that has the format takes what a request has of its newer parts: tools that items declare, which are
 * mostly in namespaces, tools that the client searches, and the compaction of a conversation.
 */
function takesRequest(target: Target, { input, tools }: Partial<ResponsesRequest> = {}): boolean {
  const items = Array.isArray(input) ? input : []
  const searches = takesSearches(target)
  if (!searches && tools?.some(isClientSearch)) return false
  return items.every(item => {
    if (item.type === 'additional_tools' || item.type === 'tool_search_output') {
      if (item.type === 'additional_tools' && !takesNamespaces(target)) return false
      return searches || !(item.tools as ResponsesTool[]).some(isClientSearch)
    }
    if (item.type === 'tool_search_call') return searches || item.execution !== 'client'
    if (item.type === 'compaction_trigger') return compacts(target)
    return !isCompaction(item) || compacts(target) || isEnvelope(item.encrypted_content)
  })
}

function takesSearches(target: Target): boolean {
  return profileOf(target).tool_search
}
