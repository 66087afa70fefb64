import { canReason } from '../../../catalog/traits.ts'
import type { ChatMessage, ToolCall } from '../../../kinds/chat.ts'
import {
  isItem,
  isMessageItem,
  isReference,
  type KnownResponsesItem,
  type ResponsesItem,
  type ResponsesMessage,
  type ResponsesRequest,
  unresolvedReference,
} from '../../../kinds/responses.ts'
import type { Target } from '../../contract.ts'
import { customArguments } from '../custom-tools.ts'
import { pushLaterSystem, pushUserParts, resultParts, toolText, type UserPart } from '../over-chat/user-parts.ts'
import { type LocatedPart, locatedParts, textOf, textsOf, userParts } from './content.ts'
import { returnedReasoning } from './reasoning.ts'
import { invalid, unsupported } from './refusals.ts'
import { chatName } from './tool-names.ts'

type Item<T extends KnownResponsesItem['type']> = Extract<KnownResponsesItem, { type: T }>
type Output = Item<'function_call_output'> | Item<'custom_tool_call_output'>
type LocatedOutput = { output: Output; position: number }
/** What the model wrote between two inputs: one assistant message. */
type Turn = { reasoning: Item<'reasoning'>[]; texts: string[]; calls: ToolCall[]; outputs: LocatedOutput[] }

/**
 * Items that are no part of the conversation: tools, which are all declared together, and records of work that a provider
 * did by itself; the answer that follows them tells its result.
 */
const skippedTypes: readonly unknown[] = [
  'additional_tools',
  'web_search_call',
  'file_search_call',
  'code_interpreter_call',
  'mcp_list_tools',
]

/** The chat messages of a Responses request. Throws a GatewayError 400 naming the item that cannot be translated. */
export function chatMessages({ instructions, input }: ResponsesRequest, target: Target): ChatMessage[] {
  const items: ResponsesItem[] = typeof input === 'string' ? [{ role: 'user', content: input }] : input
  const builder = new ConversationBuilder(items, target)
  if (instructions?.trim()) builder.addSystem([instructions])
  for (const [position, item] of items.entries()) builder.add(item, position)
  return builder.end()
}

class ConversationBuilder {
  readonly #target: Target
  readonly #messages: ChatMessage[] = []
  /** The outputs of tools that no call has taken yet, by the id of the call. */
  readonly #outputs: Map<string, LocatedOutput[]>
  #turn: Turn | null = null

  constructor(items: readonly ResponsesItem[], target: Target) {
    this.#target = target
    const outputs = items.flatMap((item, position) => (isOutput(item) ? { output: item, position } : []))
    this.#outputs = Map.groupBy(outputs, ({ output }) => output.call_id)
  }

  add(item: ResponsesItem, position: number): void {
    const param = `input.${position}`
    if (isMessageItem(item)) this.#addMessage(item, param)
    else if (isItem(item, 'reasoning')) this.#openTurn().reasoning.push(item)
    else if (isItem(item, 'function_call')) this.#addCall(item, item.arguments, position)
    else if (isItem(item, 'custom_tool_call')) this.#addCall(item, customArguments(item.input), position)
    else if (isOutput(item)) this.#endTurnAt(item, position)
    else if (isReference(item)) throw unsupported(`${param}.type`, unresolvedReference)
    else if (item.type === 'compaction_trigger')
      throw unsupported(
        `${param}.type`,
        'This model does not compact conversations. In Codex, set a provider of your own in config.toml: then it writes the summary itself.',
      )
    else if (!skippedTypes.includes(item.type))
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

  /** All messages. */
  end(): ChatMessage[] {
    this.#endTurn()
    if (this.#messages.length === 0) throw invalid('input', 'The input needs at least one message with content.')
    return this.#messages
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
  #addCall(call: Item<'function_call'> | Item<'custom_tool_call'>, args: string, position: number): void {
    const { call_id: id, name, namespace } = call
    const turn = this.#openTurn()
    const waiting = this.#outputs.get(id) ?? []
    const index = waiting.findIndex(output => output.position > position)
    if (index < 0) {
      const kind = call.type === 'function_call' ? 'function call' : 'custom tool call'
      throw invalid('input', `No tool output found for ${kind} ${id}.`)
    }
    const toolName = chatName({ name, ...(namespace && { namespace }) })
    turn.calls.push({ id, type: 'function', function: { name: toolName, arguments: args } })
    turn.outputs.push(...waiting.splice(index, 1))
  }

  /** Ends the turn whose calls have this output: what the model wrote after it is another message. */
  #endTurnAt(output: Output, position: number): void {
    if (this.#outputs.get(output.call_id)?.some(waiting => waiting.position === position)) {
      const kind = output.type === 'function_call_output' ? 'function call output' : 'custom tool call output'
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
    const parts = locatedParts(output.output, `input.${position}.output`)
    const isMedia = (located: LocatedPart) => textOf(located) === null
    const media = parts.filter(isMedia).flatMap(located => userParts(located, this.#target))
    const text = parts.flatMap(located => textOf(located) || []).join('\n')
    this.#messages.push({ role: 'tool', tool_call_id: id, content: toolText(text, media) })
    return resultParts({ id, name }, media)
  }
}

function isOutput(item: ResponsesItem): item is Output {
  return isItem(item, 'function_call_output') || isItem(item, 'custom_tool_call_output')
}
