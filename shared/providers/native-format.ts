import { compacts, profileOf, takesNamespaces } from '../catalog/traits.ts'
import type { GenerateContentRequest } from '../kinds/generate-content.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import { type MessagesRequest, outputFormatOf } from '../kinds/messages.ts'
import { isCompaction, isItem, type ResponsesRequest } from '../kinds/responses.ts'
import { isClientSearch } from '../kinds/responses-tools.ts'
import type { Target } from './contract.ts'
import { takesFormat } from './profile/emulated-format.ts'
import { isEnvelope } from './toolkit/reasoning-envelope.ts'

/**
 * Whether a target that has the format of a request also has the format of answers that it asks for. If not, the request is
 * translated to chat, where that is asked for in another way.
 */
export function takesAnswerFormat<K extends DirectKind>(
  kind: K,
  target: Target,
  body: DirectKinds[K]['request'] | undefined,
): boolean {
  if (!body) return true
  const type = askedFormats[kind]?.(body)
  return type === undefined || takesFormat(target, type, body as { tools?: unknown[]; stream?: boolean })
}

type AskedFormat = 'json_schema' | 'json_object' | undefined

const askedFormats: { readonly [K in DirectKind]?: (body: DirectKinds[K]['request']) => AskedFormat } = {
  messages: body => (outputFormatOf(body as MessagesRequest)?.type === 'json_schema' ? 'json_schema' : undefined),
  responses: body => askedInResponses(body as ResponsesRequest),
  generate_content: body => askedInGenerateContent(body as GenerateContentRequest),
}

function askedInResponses({ text }: ResponsesRequest): AskedFormat {
  const type = text?.format?.type
  return type === 'json_schema' || type === 'json_object' ? type : undefined
}

function askedInGenerateContent({ generationConfig: config }: GenerateContentRequest): AskedFormat {
  if (config?.responseSchema || config?.responseJsonSchema != null) return 'json_schema'
  return config?.responseMimeType === 'application/json' ? 'json_object' : undefined
}

/**
 * Whether a target that has the format takes what a request has of its newer parts: tools that items declare, which are
 * mostly in namespaces, a search for tools that the client runs, and the compaction of a conversation.
 */
export function takesResponses(target: Target, { input, tools }: Partial<ResponsesRequest> = {}): boolean {
  const takesSearch = profileOf(target).tool_search
  if (!takesSearch && tools?.some(isClientSearch)) return false
  if (!Array.isArray(input)) return true
  return input.every(item => {
    if (isItem(item, 'additional_tools'))
      return takesNamespaces(target) && (takesSearch || !item.tools.some(isClientSearch))
    if (isItem(item, 'compaction_trigger')) return compacts(target)
    return !isCompaction(item) || compacts(target) || isEnvelope(item.encrypted_content)
  })
}
