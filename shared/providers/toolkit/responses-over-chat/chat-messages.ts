import { canReason } from '../../../catalog/traits.ts'
import type { ChatMessage, ToolCall } from '../../../kinds/chat.ts'
import type { ReasoningDetail } from '../../../kinds/reasoning.ts'
import {
  asksToCompact,
  isCompaction,
  isItem,
  isMessageItem,
  isReference,
  isToolCall,
  isToolOutput,
  type KnownResponsesItem,
  type ResponsesItem,
  type ResponsesMessage,
  type ToolCallItem,
  type ToolOutputItem,
  unresolvedReference,
} from '../../../kinds/responses.ts'
import type { Call, Target } from '../../contract.ts'
import { compactionPrompt, summaryIn } from '../compaction.ts'
import { customArguments } from '../custom-tools.ts'
import {
  pushLaterSystem,
  pushUserParts,
  resultParts,
  textParts,
  toolText,
  type UserPart,
} from '../over-chat/user-parts.ts'
import { isEnvelope } from '../reasoning-envelope.ts'
import { type LocatedPart, locatedParts, textOf, textsOf, userParts } from './content.ts'
import { invalid, unsupported } from './refusals.ts'
import { chatName, clientTools, searchName } from './tool-names.ts'

const misplacedTrigger = "The 'compaction_trigger' item must be the final input item."

type Item<T extends KnownResponsesItem['type']> = Extract<KnownResponsesItem, { type: T }>
type Output = ToolOutputItem | (Item<'tool_search_output'> & { call_id: string })
type LocatedOutput = { output: Output; position: number }
/** What the model wrote between two inputs: one assistant message. */
type Turn = { reasoning: Item<'reasoning'>[]; texts: string[]; calls: ToolCall[]; outputs: LocatedOutput[] }

/**
 * Items that are no part of the conversation: tools, which are all declared together, and records of work that a provider
 * did by itself; the answer that follows them tells its result.
 */
const skippedTypes: readonly unknown[] = [
  'additional_tools',
  'tool_search_call',
  'tool_search_output',
  'web_search_call',
  'file_search_call',
  'code_interpreter_call',
  'mcp_list_tools',
]

/** The chat messages of a Responses request. Throws a GatewayError 400 naming the item that cannot be translated. */
export function chatMessages(call: TranslatedCall): ChatMessage[] {
  const { instructions, input } = call.body
  const items: ResponsesItem[] = typeof input === 'string' ? [{ role: 'user', content: input }] : input
  const builder = new ConversationBuilder(items, call)
  if (instructions?.trim()) builder.addSystem([instructions])
  for (const [position, item] of items.entries()) builder.add(item, position)
  return builder.end(asksToCompact(call.body))
}

type TranslatedCall = Pick<Call<'responses'>, 'body' | 'target' | 'reasoning'>

class ConversationBuilder {
  readonly #call: TranslatedCall
  readonly #target: Target
  readonly #items: readonly ResponsesItem[]
  readonly #messages: ChatMessage[] = []
  /** The outputs of tools that no call has taken yet, by the id of the call. */
  readonly #outputs: Map<string, LocatedOutput[]>
  #turn: Turn | null = null

  constructor(items: readonly ResponsesItem[], call: TranslatedCall) {
    this.#call = call
    this.#target = call.target
    this.#items = items
    const outputs = items.flatMap((item, position) => (isOutput(item) ? { output: item, position } : []))
    this.#outputs = Map.groupBy(outputs, ({ output }) => output.call_id)
  }

  add(item: ResponsesItem, position: number): void {
    const param = `input.${position}`
    if (isMessageItem(item)) this.#addMessage(item, param)
    else if (isItem(item, 'reasoning')) this.#openTurn().reasoning.push(item)
    else if (isCall(item)) this.#addCall(calledBy(item), position)
    else if (isOutput(item)) this.#endTurnAt(item, position)
    else if (isReference(item)) throw unsupported(`${param}.type`, unresolvedReference)
    else if (isCompaction(item)) this.#addUser(summaryIn(item, param, this.#call))
    else if (isItem(item, 'compaction_trigger')) {
      if (position < this.#items.length - 1) throw invalid(`${param}.type`, misplacedTrigger)
    } else if (!skippedTypes.includes(item.type))
      throw unsupported(`${param}.type`, `This model takes no item of the type ${String(item.type).slice(0, 100)}.`)
  }

  /** System texts before all else are the system prompt. Many models take none later: it becomes text of the user. */
  addSystem(texts: readonly string[]): void {
    const [first] = this.#messages
    if (this.#messages.length === 0 || (this.#messages.length === 1 && first!.role === 'system')) {
      for (const text of texts) this.#addToPrompt(text)
      return
    }
    const text = texts.join('\n\n')
    if (text !== '') pushLaterSystem(this.#messages, text, this.#target)
  }

  /** Adds to the system prompt, in place: thousands of items may become one message. */
  #addToPrompt(text: string): void {
    const [prompt] = this.#messages
    if (prompt?.role !== 'system') {
      this.#messages.push({ role: 'system', content: text })
      return
    }
    if (typeof prompt.content === 'string') prompt.content = [{ type: 'text', text: prompt.content }]
    prompt.content.push({ type: 'text', text })
  }

  /** All messages. `compacts`: the model is asked for a summary of them. */
  end(compacts: boolean): ChatMessage[] {
    this.#endTurn()
    if (this.#messages.length === 0) throw invalid('input', 'The input needs at least one message with content.')
    const last = this.#items.at(-1)
    if (last && isOutput(last)) this.#endWithOutput()
    if (compacts) this.#addUser(compactionPrompt)
    return this.#messages
  }

  /**
   * The output that ends the input is before what the model wrote between call and output, as outputs follow their calls directly.
   * That text goes to the calls: the model is to answer the output, not to continue its own text.
   */
  #endWithOutput(): void {
    const said = this.#messages.at(-1)!
    const calling = this.#messages.findLast(message => message.role === 'assistant' && message.tool_calls?.length)
    if (said.role !== 'assistant' || !calling || said === calling) return
    this.#messages.pop()
    calling.content = [said.content, calling.content].filter(Boolean).join('\n\n')
  }

  #addUser(text: string): void {
    this.#endTurn()
    pushUserParts(this.#messages, textParts(text))
  }

  #addMessage({ role, content }: ResponsesMessage, param: string): void {
    if (role === 'assistant') {
      this.#openTurn().texts.push(...textsOf(content, `${param}.content`))
      return
    }
    this.#endTurn()
    if (role !== 'user') this.addSystem(textsOf(content, `${param}.content`))
    else
      pushUserParts(
        this.#messages,
        locatedParts(content, `${param}.content`).flatMap(part => userParts(part, this.#target)),
      )
  }

  #openTurn(): Turn {
    this.#turn ??= { reasoning: [], texts: [], calls: [], outputs: [] }
    return this.#turn
  }

  /** A call takes the first output for it that follows, wherever it is: chat has all outputs directly after the calls. */
  #addCall({ id, kind, name, args }: Called, position: number): void {
    const turn = this.#openTurn()
    const waiting = this.#outputs.get(id) ?? []
    const index = waiting.findIndex(output => output.position > position)
    if (index < 0) throw invalid('input', `No tool output found for ${kind} ${id}.`)
    turn.calls.push({ id, type: 'function', function: { name, arguments: args } })
    turn.outputs.push(...waiting.splice(index, 1))
  }

  /** Ends the turn whose calls have this output: what the model wrote after it is another message. */
  #endTurnAt(output: Output, position: number): void {
    if (this.#outputs.get(output.call_id)?.some(waiting => waiting.position === position)) {
      const kind = output.type.replaceAll('_', ' ')
      throw invalid('input', `No tool call found for ${kind} with call_id ${output.call_id}.`)
    }
    this.#endTurn()
  }

  #endTurn(): void {
    const turn = this.#turn
    this.#turn = null
    if (!turn) return
    const content = turn.texts.join('\n\n')
    // Reasoning alone is no message.
    if (content === '' && turn.calls.length === 0) return
    this.#messages.push({
      role: 'assistant',
      content: content || null,
      ...returnedReasoning(turn.reasoning, canReason(this.#target.deployment)),
      ...(turn.calls.length > 0 && { tool_calls: turn.calls }),
    })
    const media = turn.calls.flatMap((call, index) => this.#pushOutput(call, turn.outputs[index]!))
    pushUserParts(this.#messages, media)
  }

  /**
   * Adds a tool message, and returns the images and files of the output: most providers take only text in a tool
   * message.
   */
  #pushOutput({ id, function: { name } }: ToolCall, { output, position }: LocatedOutput): UserPart[] {
    const content = output.type === 'tool_search_output' ? loadedTools(output) : output.output
    const parts = locatedParts(content, `input.${position}.output`)
    const isMedia = (located: LocatedPart) => textOf(located) === null
    const media = parts.filter(isMedia).flatMap(located => userParts(located, this.#target))
    const text = parts.flatMap(located => textOf(located) || []).join('\n')
    this.#messages.push({ role: 'tool', tool_call_id: id, content: toolText(text, media) })
    return resultParts({ id, name }, media)
  }
}

type CallItem = ToolCallItem | (Item<'tool_search_call'> & { call_id: string })

/** A call as chat has it. `kind`: what OpenAI names it in errors. */
type Called = { id: string; kind: string; name: string; args: string }

function isCall(item: ResponsesItem): item is CallItem {
  return isToolCall(item) || isClientsOwn(item, 'tool_search_call')
}

function isOutput(item: ResponsesItem): item is Output {
  return isToolOutput(item) || isClientsOwn(item, 'tool_search_output')
}

/** Whether an item belongs to a search that the client ran. Records of a provider's own searches are left out. */
function isClientsOwn(item: ResponsesItem, type: 'tool_search_call' | 'tool_search_output'): boolean {
  return isItem(item, type) && typeof item.call_id === 'string' && item.execution !== 'server'
}

function calledBy(item: CallItem): Called {
  const id = item.call_id
  if (item.type === 'tool_search_call')
    return { id, kind: 'tool search call', name: searchName, args: JSON.stringify(item.arguments ?? {}) }
  const { name, namespace } = item
  const toolName = chatName({ name, ...(namespace && { namespace }) })
  return item.type === 'function_call'
    ? { id, kind: 'function call', name: toolName, args: item.arguments }
    : { id, kind: 'custom tool call', name: toolName, args: customArguments(item.input) }
}

/** The tools that a search has loaded, as the model may call them from here on: all are declared with the request. */
function loadedTools({ tools }: Item<'tool_search_output'>): string {
  const loaded = [...clientTools({ tools }).entries()]
  return JSON.stringify({ loaded_tools: loaded.map(([name, { tool }]) => ({ name, description: tool.description })) })
}

type ReasoningItem = Extract<KnownResponsesItem, { type: 'reasoning' }>
type Reasoning = Pick<Extract<ChatMessage, { role: 'assistant' }>, 'reasoning_content' | 'reasoning_details'>

/**
 * The reasoning items of an earlier answer as fields of its chat message: the text for models that reason, and the
 * state that the gateway has sealed. The state of other providers is left out, as only they can read it.
 */
function returnedReasoning(items: readonly ReasoningItem[], isForReasoner: boolean): Reasoning {
  const text = items.map(reasoningTextOf).join('')
  const reasoning_details = items.flatMap((item, index): ReasoningDetail[] => {
    const state = item.encrypted_content
    return state && isEnvelope(state)
      ? [{ type: 'reasoning.text', text: reasoningTextOf(item), signature: state, index }]
      : []
  })
  return {
    ...(text !== '' && isForReasoner && { reasoning_content: text }),
    ...(reasoning_details.length > 0 && { reasoning_details }),
  }
}

/** The reasoning itself, or else its summary. */
function reasoningTextOf({ content, summary }: ReasoningItem): string {
  const parts = content?.length ? content : (summary ?? [])
  return parts.map(({ text }) => text).join('\n\n')
}
