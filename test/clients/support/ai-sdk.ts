import { createAnthropic as createAnthropic4 } from '@ai-sdk/anthropic'
import { createAnthropic as createAnthropic3 } from '@ai-sdk/anthropic-3'
import { createOpenResponses as createOpenResponses2 } from '@ai-sdk/open-responses'
import { createOpenResponses as createOpenResponses1 } from '@ai-sdk/open-responses-1'
import { createOpenAI as createOpenAi4 } from '@ai-sdk/openai'
import { createOpenAI as createOpenAi3 } from '@ai-sdk/openai-3'
import { createOpenAICompatible as createCompatible3 } from '@ai-sdk/openai-compatible'
import { createOpenAICompatible as createCompatible2 } from '@ai-sdk/openai-compatible-2'
import { createOpenRouter as createOpenRouter3 } from '@openrouter/ai-sdk-provider'
import { createOpenRouter as createOpenRouter2 } from '@openrouter/ai-sdk-provider-2'
import * as ai7 from 'ai'
import * as ai6 from 'ai-6'
import { baseUrl } from './environment.ts'

/** The majors of the AI SDK in use, each with the packages of its own generation. Their types are the newest's. */
const generations = {
  'ai 6': {
    // What was still an experiment then has its later name.
    ai: {
      ...ai6,
      generateSpeech: ai6.experimental_generateSpeech,
      transcribe: ai6.experimental_transcribe,
    } as unknown as typeof ai7,
    createAnthropic: createAnthropic3 as unknown as typeof createAnthropic4,
    createOpenAi: createOpenAi3 as unknown as typeof createOpenAi4,
    createCompatible: createCompatible2 as unknown as typeof createCompatible3,
    createOpenResponses: createOpenResponses1 as unknown as typeof createOpenResponses2,
    createOpenRouter: createOpenRouter2 as unknown as typeof createOpenRouter3,
  },
  'ai 7': {
    ai: ai7,
    createAnthropic: createAnthropic4,
    createOpenAi: createOpenAi4,
    createCompatible: createCompatible3,
    createOpenResponses: createOpenResponses2,
    createOpenRouter: createOpenRouter3,
  },
}

export type Generation = keyof typeof generations
export const generationNames = Object.keys(generations) as Generation[]
type Fetch = typeof fetch

/** One major of the AI SDK and its providers, with a key of the gateway. */
export function aiSdk(generation: Generation, apiKey: string, fetch?: Fetch) {
  const { ai, createAnthropic, createOpenAi, createCompatible, createOpenResponses, createOpenRouter } =
    generations[generation]
  const settings = { apiKey, baseURL: baseUrl, ...(fetch && { fetch }) }
  const compatible = createCompatible({
    ...settings,
    name: 'headgate',
    includeUsage: true,
    supportsStructuredOutputs: true,
  })
  return {
    ai,
    anthropic: createAnthropic(settings),
    openai: createOpenAi(settings),
    compatible,
    openResponses: createOpenResponses({ ...settings, name: 'headgate', url: `${baseUrl}/responses` }),
    openrouter: createOpenRouter(settings),
  }
}

type Sdk = ReturnType<typeof aiSdk>

/** What docs/clients.md says for the default model of OpenAI's package: otherwise it refers to items as stored ones. */
export const storingNothing = { openai: { store: false } }

/** The chat model of each provider package. */
export const chatModels: Record<string, (sdk: Sdk, model: string) => ai7.LanguageModel> = {
  anthropic: ({ anthropic }, model) => anthropic(model),
  openai: ({ ai, openai }, model) =>
    ai.wrapLanguageModel({
      model: openai(model),
      middleware: ai.defaultSettingsMiddleware({ settings: { providerOptions: storingNothing } }),
    }),
  'openai.chat': ({ openai }, model) => openai.chat(model),
  'open-responses': ({ openResponses }, model) => openResponses(model),
  'openai-compatible': ({ compatible }, model) => compatible(model),
  openrouter: ({ openrouter }, model) => openrouter.chat(model),
}
