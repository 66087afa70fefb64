import { asksFor1hCache } from '../kinds/cache-marks.ts'
import type { ChatMessage, ChatRequest } from '../kinds/chat.ts'
import { type MemberVisitor, readMembers } from '../kinds/member-reader.ts'
import {
  isBlock,
  type MessagesBlock,
  type MessagesRequest,
  type MessagesResultBlock,
  outputFormatOf,
} from '../kinds/messages.ts'
import { messagesMemberTables } from '../kinds/messages-members.ts'
import { maxWebSearches } from '../kinds/web-search.ts'
import { isEnvelope } from '../providers/toolkit/reasoning-envelope.ts'
import { difficultyOf } from './difficulty.ts'
import { type Features, FoundFiles, messageOverhead, toolOverhead, webSearchesOf } from './features.ts'
import { lastTextOf } from './last-text.ts'

/** The features of a Messages request whose JSON body has `bodyBytes` bytes. */
export function messagesFeatures(body: MessagesRequest, bodyBytes: number): Features {
  const found = new FoundFiles()
  let signedThinking = false
  const visitor: MemberVisitor = {
    file: (rule, characters) => found.file(rule, characters),
    object({ type, signature, data }) {
      if (type === 'thinking') signedThinking ||= isForeign(signature)
      else if (type === 'redacted_thinking') signedThinking ||= isForeign(data)
    },
  }
  const unlisted = readMembers(body, messagesMemberTables, visitor, 'messages')
  const textBytes = found.textBytes(bodyBytes)
  const promptTokensEstimate = Math.ceil(textBytes / 4) + found.tokensEstimate
  const tools = (body.tools?.length ?? 0) > 0
  const jsonSchema = outputFormatOf(body)?.type === 'json_schema'
  const toolsets = body.tools?.filter(({ type }) => type != null && toolset.test(type)).length ?? 0
  const hidden = (tools || jsonSchema ? toolOverhead : 0) + toolsets * toolsetOverhead
  const firstPrompt = textBytes + messageOverhead + hidden
  const prompts = compacts(body) ? 2 : 1
  const reads = toolReadsOf(body)
  return {
    textTokensBound: firstPrompt * prompts,
    media: found.media,
    prompts,
    promptTokensEstimate,
    maxPromptEstimate: promptTokensEstimate,
    maxTokens: body.max_tokens,
    choices: 1,
    inputs: found.inputs,
    outputs: { image: false, audio: false },
    voice: false,
    tools,
    cache1h: () => asksFor1hCache(body),
    jsonSchema,
    jsonObject: false,
    logprobs: false,
    ...webSearchesOf(webSearchLimit(body), firstPrompt, false),
    ...(extendsPrompt(body) && { extendsPrompt: true }),
    ...(reads > 0 && { toolReads: reads * prompts }),
    signedThinking,
    ...(unlisted.length > 0 && { unlisted }),
    difficulty: () => difficultyOf(asChat(body)),
    lastText: () => lastTextOf(asChat(body).messages),
  }
}

/** Tools that the client runs, of which a request has the name of their family only; the provider adds the schema of each. */
const toolset = /^(?:browser|computer)_toolset_\d{8}$/
/** The descriptions of the 31 tools of a browser and their inputs have 30,000 characters (@anthropic-ai/sdk, `BrowserToolset20260801`). */
const toolsetOverhead = 12_000

/**
 * The most searches of the web that the request permits. A tool without `max_uses` counts as none: the adapter refuses
 * it.
 */
function webSearchLimit({ tools }: MessagesRequest): number {
  const uses = (tools ?? []).map(({ type, max_uses: max }) => (type?.startsWith('web_search_') ? (max ?? 0) : 0))
  return Math.min(
    uses.reduce((sum, one) => sum + one, 0),
    maxWebSearches,
  )
}

/**
 * Tools that the provider runs, after which it reads the prompt again with results of a usual size. Those of other tools
 * are in `toolReads`.
 */
const serverTool = /^(?:web_search_|tool_search_tool_)/
/** The most rounds of tools that the provider runs in one request, before it pauses the turn. */
const maxToolRounds = 10

/**
 * How often the provider may read the prompt again with pages that it fetched and what MCP servers returned. `max_uses`
 * limits the fetches; `max_content_tokens` does not limit their size, since it does not apply to PDFs.
 */
function toolReadsOf({ tools, mcp_servers: servers }: MessagesRequest): number {
  let uses = Array.isArray(servers) && servers.length > 0 ? maxToolRounds : 0
  for (const { type, max_uses: max } of tools ?? []) {
    if (type === 'mcp_toolset') uses += maxToolRounds
    else if (type?.startsWith('web_fetch_')) uses += max ?? maxToolRounds
  }
  return Math.min(uses, maxToolRounds)
}

function extendsPrompt(body: MessagesRequest): boolean {
  return compacts(body) || (body.tools ?? []).some(({ type }) => type != null && serverTool.test(type))
}

/** Whether the provider may summarize the conversation first, which reads it once more. */
function compacts({ context_management: management }: MessagesRequest): boolean {
  return management?.edits?.some(({ type }) => type.startsWith('compact_')) === true
}

/** Whether opaque state comes from a provider itself; '' holds none. */
function isForeign(state: unknown): boolean {
  return typeof state === 'string' && state !== '' && !isEnvelope(state)
}

/** What the difficulty of a request is read from, as a chat request. */
function asChat(body: MessagesRequest): ChatRequest {
  const { model, system, messages, tools } = body
  const chat = messages.map(({ role, content }) => ({ role, content: textOf(content) }) as ChatMessage)
  const systemText = textOf(system ?? '')
  return {
    model,
    messages: systemText === '' ? chat : [{ role: 'system', content: systemText }, ...chat],
    ...(tools && { tools: tools.map(() => ({ type: 'function' as const, function: { name: 'tool' } })) }),
    ...(outputFormatOf(body)?.type === 'json_schema' && {
      response_format: { type: 'json_schema' as const, json_schema: { name: 'answer' } },
    }),
  }
}

function textOf(content: string | readonly (MessagesBlock | MessagesResultBlock)[]): string {
  if (typeof content === 'string') return content
  return content.flatMap(block => (isBlock(block, 'text') ? block.text : [])).join('\n')
}
