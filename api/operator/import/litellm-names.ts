import { familyOf } from '../../../shared/catalog/regions.ts'
import names from './litellm-providers.json' with { type: 'json' }

// What names in a config of LiteLLM mean, by github.com/BerriAI/litellm: litellm/litellm_core_utils/get_llm_provider_logic.py,
// litellm/llms/bedrock/common_utils.py, litellm/llms/ollama/common_utils.py.

const providers: Record<string, string | undefined> = names.providers
const paths: Record<string, string | undefined> = names.paths

/** The provider of the catalog for LiteLLM's name of one; undefined for others. */
export function providerNamed(name: string): string | undefined {
  return providers[name]
}

const inferred = Object.entries(names.inferred).map(([provider, model]) => [new RegExp(model), provider] as const)

/** The provider of a model that a config names without one; undefined if it is not known. */
export function inferProvider(model: string): string | undefined {
  return inferred.find(([name]) => name.test(model))?.[1]
}

/** What precedes the name of a model at a cloud: the API of it that LiteLLM calls, and a region. */
const routes = new Map(Object.entries(names.routes).map(([cloud, route]) => [cloud, new RegExp(route)]))

/** The provider's own name of a model, of what follows the provider in LiteLLM's. */
export function upstreamName(provider: string | undefined, rest: string): string {
  const route = provider === undefined ? undefined : routes.get(familyOf(provider))
  return route ? rest.replace(route, '') : rest
}

/** What a name may have besides the model: the geography of an inference profile of Bedrock, the version at Vertex AI. */
const place = /^(?:global|us|eu|apac|jp|au|us-gov)\.|@[^@]*$/g

/** Whether two names of a provider mean one model, wherever it is served. */
export function isSameModel(name: string, other: string): boolean {
  const plain = (text: string) => text.toLowerCase().replaceAll(place, '')
  return plain(name) === plain(other)
}

const modes: readonly [model: RegExp, mode: string][] = [
  [/rerank/i, 'rerank'],
  [/embed|(?:^|[/-])(?:bge|e5|gte)-/i, 'embedding'],
  [/whisper|transcribe/i, 'audio_transcription'],
  [/(?:^|[/-])tts(?:-|$)/i, 'audio_speech'],
  [/imagen|dall-e|gpt-image|stable-diffusion|(?:^|[/-])flux/i, 'image_generation'],
  [/(?:^|[/-])(?:veo|sora)-/i, 'video_generation'],
]

/** What a model is for, if the config does not say so: `chat` unless its name says otherwise. */
export function inferMode(model: string): string {
  return modes.find(([name]) => name.test(model))?.[1] ?? 'chat'
}

const azureHost = /\.(?:openai\.azure|cognitiveservices\.azure|services\.ai\.azure)\.com$/

/** Whether an address is a resource of Azure, whose calls are billed. */
export function isAzure(url: string): boolean {
  return azureHost.test(new URL(url).hostname)
}

type Server = { base_url: string; protocol?: string; auth?: string }

/** A server of one's own at an address, as a provider of an apply file. `like`: the shipped provider that it answers like. */
export function serverAt(
  address: string,
  { like, model }: { like: { name: string; protocol: string; auth: string } | undefined; model: string },
): Server {
  const url = address.replace(/\/+$/, '')
  const { origin, pathname } = new URL(url)
  if (isAzure(url)) {
    const { path, ...claude } = names.claude_at_azure
    return /claude/i.test(model)
      ? { base_url: origin + path, ...claude }
      : { base_url: `${origin}/openai/v1`, auth: 'api-key' }
  }
  // Where LiteLLM calls a server's own API, at its root, and OpenAI's is below a path.
  const path = pathname === '/' ? (paths[like?.name ?? ''] ?? '') : ''
  return { ...(like && { protocol: like.protocol, auth: like.auth }), base_url: url + path }
}
