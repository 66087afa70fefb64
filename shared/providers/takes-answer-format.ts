import type { GenerateContentRequest } from '../kinds/generate-content.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import { type MessagesRequest, outputFormatOf } from '../kinds/messages.ts'
import type { ResponsesRequest } from '../kinds/responses.ts'
import type { Target } from './contract.ts'
import { takesFormat } from './profile/emulated-format.ts'

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
