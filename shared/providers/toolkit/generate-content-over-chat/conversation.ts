import { GatewayError } from '../../../base/errors.ts'
import { isObject } from '../../../base/is-object.ts'
import { canReason } from '../../../catalog/traits.ts'
import type { ChatMessage } from '../../../kinds/chat.ts'
import type { GeminiContent, GeminiPart, GenerateContentRequest } from '../../../kinds/generate-content.ts'
import type { Target } from '../../contract.ts'
import { pushUserParts, resultParts, textParts, toolText, type UserPart } from '../over-chat/user-parts.ts'
import { mediaPart } from './media.ts'
import { reasoningIn } from './reasoning-state.ts'

type Call = { id: string; name: string }
type Assistant = Extract<ChatMessage, { role: 'assistant' }>
type FunctionResponse = NonNullable<GeminiPart['functionResponse']>

/**
 * The chat messages of a request in Google's form. Throws a GatewayError 400 naming the part that cannot be translated, and
 * for a call without a result: other providers refuse it, as Google does.
 */
export function conversation({ systemInstruction, contents }: GenerateContentRequest, target: Target): ChatMessage[] {
  const builder = new ConversationBuilder(target)
  builder.addSystemPrompt(systemInstruction)
  for (const [index, content] of contents.entries()) builder.add(content, `contents.${index}`)
  return builder.end()
}

class ConversationBuilder {
  readonly #target: Target
  readonly #messages: ChatMessage[] = []
  /** Calls of the last answer that have no result yet. */
  #openCalls: Call[] = []
  #openAt = ''
  /** Parts of the user, which follow the results of the same turn. */
  #userParts: UserPart[] = []

  constructor(target: Target) {
    this.#target = target
  }

  addSystemPrompt(system: GenerateContentRequest['systemInstruction']): void {
    const texts = (system?.parts ?? []).flatMap(({ text, ...others }, index) => {
      const other = Object.keys(others).find(name => name !== 'thought' && name !== 'thoughtSignature')
      if (other !== undefined)
        throw unsupported(`systemInstruction.parts.${index}.${other}`, 'only texts can be instructions')
      return text ? [text] : []
    })
    if (texts.length > 0) this.#messages.push({ role: 'system', content: texts.join('\n\n') })
  }

  add({ role, parts = [] }: GeminiContent, param: string): void {
    if (role === 'model') {
      this.#endUserTurn()
      this.#addAnswer(parts, param)
      return
    }
    for (const [index, part] of parts.entries()) this.#addUserPart(part, `${param}.parts.${index}`)
  }

  end(): ChatMessage[] {
    const isUnfinished =
      this.#openCalls.length > 0 && this.#userParts.length === 0 && this.#messages.at(-1)?.role === 'assistant'
    if (!isUnfinished) this.#endUserTurn()
    if (this.#messages.some(({ role }) => role !== 'system')) return this.#messages
    throw new GatewayError('invalid_request', 'contents: at least one part with content is required.', {
      param: 'contents',
    })
  }

  #endUserTurn(): void {
    if (this.#openCalls.length > 0) {
      const names = this.#openCalls.map(({ name }) => name).join(', ')
      const rule =
        'Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.'
      throw invalid(this.#openAt, `${rule} There is no response of: ${names.slice(0, 500)}`)
    }
    pushUserParts(this.#messages, this.#userParts)
    this.#userParts = []
  }

  #addUserPart(part: GeminiPart, param: string): void {
    if (part.functionResponse) this.#addResult(part.functionResponse, `${param}.functionResponse`)
    else if (part.functionCall)
      throw invalid(`${param}.functionCall`, 'Function calls must be in contents of the role "model".')
    else this.#userParts.push(...userParts(part, param, this.#target))
  }

  #addResult(response: FunctionResponse, param: string): void {
    const call = this.#takeCall(response, param)
    const media = (response.parts ?? []).flatMap((part, index) =>
      userParts(part, `${param}.parts.${index}`, this.#target),
    )
    this.#messages.push({ role: 'tool', tool_call_id: call.id, content: toolText(resultText(response), media) })
    this.#userParts.push(...resultParts(call, media))
  }

  /** The call that a result is of: by its id, else the first one of its name. */
  #takeCall({ id, name }: FunctionResponse, param: string): Call {
    const byId = id ? this.#openCalls.findIndex(call => call.id === id) : -1
    const at = byId >= 0 ? byId : this.#openCalls.findIndex(call => call.name === name)
    const call = this.#openCalls[at]
    if (!call)
      throw invalid(param, `There is no call of "${name.slice(0, 100)}" in the turn before that has no response yet.`)
    this.#openCalls.splice(at, 1)
    return call
  }

  #addAnswer(parts: readonly GeminiPart[], param: string): void {
    const last = this.#messages.at(-1)
    const message: Assistant = { role: 'assistant', content: null }
    const texts: string[] = []
    const thoughts: string[] = []
    const calls: NonNullable<Assistant['tool_calls']> = []
    for (const [index, part] of parts.entries()) {
      const at = `${param}.parts.${index}`
      this.#takeReasoning(part, message)
      if (part.thought) thoughts.push(part.text ?? '')
      else if (part.functionCall) {
        const { id = callId(at), name, args = {} } = part.functionCall
        calls.push({ id, type: 'function', function: { name, arguments: JSON.stringify(args) } })
        this.#openCalls.push({ id, name })
      } else if (part.inlineData || part.fileData) this.#userParts.push(...userParts(part, at, this.#target))
      else texts.push(textOf(part, at))
    }
    const text = texts.join('')
    if (text !== '') message.content = text
    if (calls.length > 0) message.tool_calls = calls
    const reasons = canReason(this.#target.deployment)
    if (reasons && message.reasoning_content == null && thoughts.length > 0)
      message.reasoning_content = thoughts.join('')
    if (!reasons) delete message.reasoning_content
    this.#openAt = param
    if (text === '' && calls.length === 0) return
    // Adjacent contents of the model are one answer.
    if (last?.role === 'assistant') this.#messages[this.#messages.length - 1] = joined(last, message)
    else this.#messages.push(message)
  }

  /** The reasoning that the signature of a part carries. */
  #takeReasoning({ thoughtSignature }: GeminiPart, message: Assistant): void {
    const carried = thoughtSignature ? reasoningIn(thoughtSignature) : null
    if (!carried) return
    if (carried.text !== '') message.reasoning_content = (message.reasoning_content ?? '') + carried.text
    if (carried.details.length > 0)
      message.reasoning_details = [...(message.reasoning_details ?? []), ...carried.details]
  }
}

function joined(first: Assistant, second: Assistant): Assistant {
  const reasoning_content = [first.reasoning_content, second.reasoning_content].filter(Boolean).join('')
  const reasoning_details = [...(first.reasoning_details ?? []), ...(second.reasoning_details ?? [])]
  const tool_calls = [...(first.tool_calls ?? []), ...(second.tool_calls ?? [])]
  const content = [first.content, second.content].filter(Boolean).join('')
  return {
    role: 'assistant',
    content: content === '' ? null : content,
    ...(reasoning_content !== '' && { reasoning_content }),
    ...(reasoning_details.length > 0 && { reasoning_details }),
    ...(tool_calls.length > 0 && { tool_calls }),
  }
}

/** The id of a call for which the client has none: Google's API does not require ids. */
function callId(param: string): string {
  return `call_${param.replace(/\D+/g, '_').replace(/^_|_$/g, '')}`
}

function userParts(part: GeminiPart, param: string, target: Target): UserPart[] {
  if (part.inlineData || part.fileData) return mediaPart(part, param, target)
  return textParts(textOf(part, param))
}

/** The text of a part; '' for one that has only state. Code that Google has run is text for other models. */
function textOf(part: GeminiPart, param: string): string {
  if (part.text !== undefined) return part.text
  if (part.executableCode)
    return `\n\`\`\`${part.executableCode.language?.toLowerCase() ?? ''}\n${part.executableCode.code}\n\`\`\`\n`
  if (part.codeExecutionResult) return `\n\`\`\`\n${part.codeExecutionResult.output ?? ''}\n\`\`\`\n`
  const [other] = Object.keys(part).filter(name => name !== 'thought' && name !== 'thoughtSignature')
  if (other === undefined) return ''
  throw unsupported(`${param}.${other}`, 'only Gemini’s own models take this part')
}

/** The result as a text: that of the members which Google recommends for one, else as JSON. */
function resultText({ response = {} }: FunctionResponse): string {
  const [name, another] = Object.keys(response)
  const value = name === undefined ? undefined : response[name]
  if (another === undefined && typeof value === 'string') {
    if (name === 'output' || name === 'result') return value
    if (name === 'error') return `Error: ${value}`
  }
  return isObject(response) ? JSON.stringify(response) : ''
}

function invalid(param: string, message: string): GatewayError {
  return new GatewayError('invalid_request', `${param}: ${message}`, { param })
}

function unsupported(param: string, message: string): GatewayError {
  return new GatewayError('unsupported_capability', `${param}: ${message}.`, { param })
}
