import { GatewayError } from '../../../base/errors.ts'
import { editBody } from '../../../base/json-member.ts'
import type { Usage } from '../../../base/usage.ts'
import { hasWebSearchPrice } from '../../../catalog/traits.ts'
import {
  type GeminiAnswer,
  type GeminiContent,
  type GeminiPart,
  type GenerateContentRequest,
  googleSearchesIn,
} from '../../../kinds/generate-content.ts'
import { fileKindOf } from '../../../kinds/generate-content-members.ts'
import { asksFor, generateContentMembers } from '../../../kinds/request-members.ts'
import type { Call, DirectAdapter, Target, UpstreamRequest } from '../../contract.ts'
import { ProviderError } from '../../provider-error.ts'
import type { SseEvent, StreamDecoder } from '../../stream-decoder.ts'
import { isOwnSignature } from '../../toolkit/generate-content-over-chat/reasoning-state.ts'
import { unsentMembers, withDropped } from '../../toolkit/request-fields.ts'
import { isBlocked, usageOf } from './answer.ts'
import { lostSignature } from './contents.ts'
import { type Generated, readGenerated } from './wire.ts'

type GenerateCall = Call<'generate_content'>

/** `generateContent` for clients of the same dialect: their bytes, apart from what `editedBody` changes. */
export const generateContent: DirectAdapter<'generate_content'> = {
  native: true,
  request: call => contentRequest(withWholeCalls(call)),
  // It takes bytes, not URLs: what a URL has is measured and billed as what is sent.
  remoteMedia: imageUrls,
  answer(json) {
    const generated = readGenerated(json)
    if (isBlocked(generated)) return json as GeminiAnswer
    const { candidates = [] } = generated
    if (candidates.length === 0) throw malformed('without a candidate')
    if (candidates.some(({ finishReason }) => finishReason === undefined))
      throw malformed('with an unfinished candidate')
    return json as GeminiAnswer
  },
  usage: json => withSearches(usageOf(readGenerated(json).usageMetadata), googleSearchesIn(json as GeminiAnswer)),
  stream: ({ body }) => new GeneratedReader(body.generationConfig?.candidateCount ?? 1),
  countTokens(call) {
    refuseMembers(call.body)
    const { target } = call
    const model = `models/${target.deployment.upstream_model}`
    const { body } = editedBody({ ...call, raw: null, maxTokens: null })
    return post(
      target,
      'countTokens',
      JSON.stringify({ generateContentRequest: { model, ...JSON.parse(String(body)) } }),
    )
  },
  countedTokens: json => (json as { totalTokens?: unknown } | null)?.totalTokens,
}

/** `POST …:generateContent`, or its stream. */
export function contentRequest(call: GenerateCall): UpstreamRequest {
  refuseMembers(call.body)
  refuseUnpricedTools(call)
  const method = call.body.stream ? 'streamGenerateContent?alt=sse' : 'generateContent'
  const { body, dropped } = editedBody(call)
  const signatures = signaturesIn(call)
  const request = {
    ...post(call.target, method, body),
    reasoningDropped: signatures.own,
    reasoningSent: signatures.sent,
  }
  return withDropped(request, dropped)
}

/**
 * A call that does not ask for its arguments in parts: only streams of Vertex AI have them (`streamFunctionCallArguments` of @google/genai;
 * vercel/ai#14352). Whole arguments mean the same.
 */
export function withWholeCalls(call: GenerateCall): GenerateCall {
  const { toolConfig } = call.body
  if (toolConfig?.functionCallingConfig?.streamFunctionCallArguments === undefined) return call
  const { streamFunctionCallArguments: _, ...functionCallingConfig } = toolConfig.functionCallingConfig
  return { ...call, raw: null, body: { ...call.body, toolConfig: { ...toolConfig, functionCallingConfig } } }
}

function post({ deployment }: Target, method: string, body: Buffer | string): UpstreamRequest {
  return {
    method: 'POST',
    path: `/v1beta/models/${deployment.upstream_model}:${method}`,
    headers: { 'content-type': 'application/json' },
    body,
  }
}

/**
 * The body for the provider: the client's bytes in their order, without the members that are not sent (`dropped`: those that
 * the client may miss), with the bytes of images behind URLs, without the reasoning of other models, and, if the call's
 * ceiling is lower, with that as `maxOutputTokens`.
 */
export function editedBody(call: GenerateCall): { body: Buffer | string; dropped: string[] } {
  const { body, raw, maxTokens, passesUnknown, target, media } = call
  const { removed, dropped } = unsentMembers('generate_content', body, passesUnknown)
  const changes: Record<string, unknown> = {}
  for (const name of removed) changes[name] = undefined
  if (target.tier) Object.assign(changes, { serviceTier: target.tier, service_tier: undefined })
  const { generationConfig } = body
  if (maxTokens !== null && !((generationConfig?.maxOutputTokens || Number.POSITIVE_INFINITY) <= maxTokens))
    changes.generationConfig = { ...generationConfig, maxOutputTokens: maxTokens }
  const signs = target.deployment.traits?.thinking === 'level'
  const refused = call.reasoning?.refused === true
  const contents = changedItems(withResultsInOneTurn(body.contents), content => {
    const read = changedParts(content, part => withImage(withOwnState(part, { signs, refused }), media))
    return signs ? withSignedCall(read) : read
  })
  if (contents !== body.contents) changes.contents = contents
  return { body: editBody(raw, body, changes), dropped }
}

/**
 * The contents with the results of functions in one turn of the user, in their order. Google refuses results of several calls in turns
 * of their own ("the number of function response parts is equal to …"), as LangChain's packages for JavaScript send them
 * (langchain-ai/langchainjs#10341, #10342), eino (cloudwego/eino-ext#571) and others. The same list where none are apart.
 */
function withResultsInOneTurn(contents: readonly GeminiContent[]): readonly GeminiContent[] {
  const isApart = contents.some((content, index) => index > 0 && hasResult(content) && isUsers(contents[index - 1]!))
  if (!isApart) return contents
  const turns: GeminiContent[] = []
  for (const content of contents) {
    const last = turns.at(-1)
    if (last && isUsers(last) && isUsers(content) && (hasResult(last) || hasResult(content)))
      turns[turns.length - 1] = { ...last, parts: [...(last.parts ?? []), ...(content.parts ?? [])] }
    else turns.push(content)
  }
  return turns
}

function isUsers({ role }: GeminiContent): boolean {
  return role !== 'model'
}

function hasResult({ parts = [] }: GeminiContent): boolean {
  return parts.some(part => part.functionResponse)
}

/** A list with its items changed, without those that become null. The same list if none changes. */
function changedItems<T>(items: readonly T[], change: (item: T) => T | null): readonly T[] {
  const changed = items.map(change)
  if (changed.every((item, index) => item === items[index])) return items
  return changed.filter((item): item is Awaited<T> & T => item !== null)
}

function changedParts(content: GeminiContent, change: (part: GeminiPart) => GeminiPart | null): GeminiContent {
  const parts = content.parts && changedItems(content.parts, change)
  return parts === content.parts ? content : { ...content, parts: [...parts!] }
}

/** Without state that this model did not make, or that it has refused; a call without its signature may have a substitute. */
function withOwnState(part: GeminiPart, { signs, refused }: { signs: boolean; refused: boolean }): GeminiPart | null {
  const { thoughtSignature: signature, ...others } = part
  if (signature === undefined || !(refused || isOwnSignature(signature))) return part
  if (part.thought) return null
  return part.functionCall && signs ? { ...others, thoughtSignature: lostSignature } : others
}

/**
 * The content whose first call has a signature, which Gemini 3 and newer require ("Function call is missing a thought_signature"): calls
 * of Gemini 2.5 have none, nor have those of a history that was stored without (vercel/ai#15550, pipecat-ai/pipecat#5809).
 */
function withSignedCall(content: GeminiContent): GeminiContent {
  const first = content.parts?.find(({ functionCall }) => functionCall)
  if (!first || first.thoughtSignature) return content
  return changedParts(content, part => (part === first ? { ...part, thoughtSignature: lostSignature } : part))
}

function signaturesIn({ body, reasoning }: GenerateCall): { own: boolean; sent: boolean } {
  let own = false
  let sent = false
  for (const { parts = [] } of body.contents)
    for (const { thoughtSignature: signature } of parts) {
      if (!signature) continue
      if (isOwnSignature(signature)) own = true
      else sent = true
    }
  const refused = reasoning?.refused === true
  return { own: own || (sent && refused), sent: sent && !refused }
}

function withImage(part: GeminiPart | null, media: GenerateCall['media']): GeminiPart | null {
  const { fileData, ...others } = part ?? {}
  const image = fileData && media.get(fileData.fileUri)
  if (!image) return part
  const mimeType = image.contentType.split(';')[0]!.trim()
  return { ...others, inlineData: { mimeType, data: image.bytes.toString('base64') } }
}

function imageUrls({ contents }: GenerateContentRequest): string[] {
  return contents.flatMap(({ parts = [] }) =>
    parts.flatMap(({ fileData }) => (fileData && fileKindOf(fileData.mimeType) === 'image' ? [fileData.fileUri] : [])),
  )
}

function refuseMembers(body: GenerateContentRequest): void {
  for (const [name, member] of generateContentMembers)
    if (member.is === 'refused' && asksFor(member, body[name]))
      throw unsupported(
        `${name}: caches of the provider’s account cannot be used here; send the contents themselves.`,
        name,
      )
}

/** Tools that cost nothing beside their tokens. `googleSearch` needs a price. */
const freeTools: ReadonlySet<string> = new Set(['functionDeclarations', 'codeExecution', 'urlContext', 'computerUse'])

/** Refuses tools that Google bills apart from the tokens and the catalog has no price for, and those that read the operator's data. */
function refuseUnpricedTools({ body, target }: GenerateCall): void {
  for (const [index, tool] of (body.tools ?? []).entries())
    for (const name in tool) {
      if (tool[name] === undefined || freeTools.has(name)) continue
      if (name === 'googleSearch' && hasWebSearchPrice(target.deployment)) continue
      const param = `tools.${index}.${name.slice(0, 100)}`
      throw unsupported(`${param}: this tool has no price here, so it cannot be used.`, param)
    }
}

function withSearches(usage: Usage | undefined, searches: number): Usage | undefined {
  return usage && searches > 0 ? { ...usage, web_searches: searches } : usage
}

/**
 * Reads the events of a native stream, which are forwarded as they are: checks what the gateway reads and counts the tokens. There
 * is no end marker: the answer is complete when every candidate has a finish reason, or the prompt is blocked.
 */
class GeneratedReader implements StreamDecoder<GeminiAnswer> {
  readonly #expected: number
  readonly #finished = new Set<number>()
  #isBlocked = false
  #usage: Usage | undefined
  #searches = 0

  constructor(expected: number) {
    this.#expected = expected
  }

  get done(): boolean {
    return this.#isBlocked || this.#finished.size >= this.#expected
  }

  get usage(): Usage | undefined {
    return withSearches(this.#usage, this.#searches)
  }

  push({ data }: SseEvent): GeminiAnswer[] {
    if (data === '') return []
    const json = parse(data)
    const generated = readGenerated(json)
    if (Object.keys(generated).length === 0) throw malformed('with an event that says nothing')
    this.#isBlocked ||= isBlocked(generated)
    this.#count(generated, json)
    return [json as GeminiAnswer]
  }

  #count({ candidates = [], usageMetadata }: Generated, json: unknown): void {
    for (const [position, { index = position, finishReason }] of candidates.entries())
      if (finishReason !== undefined) this.#finished.add(index)
    const reported = usageOf(usageMetadata)
    // An earlier count excludes the output of this event.
    const hasParts = candidates.some(({ content }) => content?.parts?.length)
    this.#usage = reported ?? (hasParts ? undefined : this.#usage)
    this.#searches = Math.max(this.#searches, googleSearchesIn(json as GeminiAnswer))
  }
}

function parse(data: string): unknown {
  try {
    return JSON.parse(data)
  } catch (cause) {
    throw malformed('with an event that is not JSON', cause)
  }
}

function malformed(how: string, cause?: unknown): ProviderError {
  return new ProviderError('invalid_response', `Gemini answered ${how}`, { cause })
}

function unsupported(message: string, param: string): GatewayError {
  return new GatewayError('unsupported_capability', message, { param })
}
