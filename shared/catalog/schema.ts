import { z } from 'zod'
import { chatProfile } from './chat-profile.ts'
import { deploymentTraits, foreignToChat } from './deployment-traits.ts'
import { currentQuirks, currentTraits } from './former-notation.ts'
import { faultsOfKind, kindFields } from './kind-fields.ts'
import { providerQuirks } from './provider-quirks.ts'
import { deploymentHeaders, deploymentParameters } from './request-additions.ts'

/** Decimal string in USD, at most 12 decimals. Per million for tokens and characters, per unit for the rest. */
const usd = z.string().regex(/^\d{1,7}(\.\d{1,12})?$/, 'a decimal string in USD')

const tokenRates = {
  input: usd,
  output: usd,
  cached_input: usd.optional(),
  cache_write: usd.optional(),
  /** Prompt tokens written to a cache that lives for one hour, where the provider offers it by `cache_control.ttl`. */
  cache_write_1h: usd.optional(),
  audio_input: usd.optional(),
  cached_audio_input: usd.optional(),
  audio_output: usd.optional(),
  image_input: usd.optional(),
  image_output: usd.optional(),
}

/** Prices for the whole call if its prompt exceeds `tokens`. */
const above = z.strictObject({ tokens: z.int().positive(), ...tokenRates }).optional()
const tierRates = z.strictObject({ ...tokenRates, above }).optional()

/** The price of a provider. Token and character prices are per million, all others per unit. */
export const price = z.discriminatedUnion('unit', [
  z.strictObject({
    unit: z.literal('token'),
    ...tokenRates,
    above,
    /** Prices of the service tiers that it offers. A tier without a price is not sent. */
    tiers: z.strictObject({ flex: tierRates, priority: tierRates }).optional(),
    /** One search of the web by the provider’s own tool. Without it, the tool is refused. */
    web_search: usd.optional(),
  }),
  z.strictObject({ unit: z.literal('character'), usd }),
  z.strictObject({ unit: z.literal('image'), usd, by_size: z.record(z.string(), usd).optional() }),
  z.strictObject({ unit: z.literal('second'), usd, by_resolution: z.record(z.string(), usd).optional() }),
  /**
   * `added_by_option`: surcharge per minute for an option of the request. An option that is not listed is not offered.
   * `min_seconds`: shorter sound is billed as if it had this length.
   */
  z.strictObject({
    unit: z.literal('minute'),
    usd,
    added_by_option: z.record(z.string(), usd).optional(),
    min_seconds: z.int().positive().optional(),
  }),
  /** `annotated`: for a page that is put into a schema as well, as far as the provider counts it. Without it, that is refused. */
  z.strictObject({ unit: z.literal('page'), usd, annotated: usd.optional() }),
  z.strictObject({ unit: z.literal('flat'), usd, by_option: z.record(z.string(), usd).optional() }),
  /** Billed from the provider's invoice: `usd` per provider credit, with the maximum credits of one job. */
  z.strictObject({ unit: z.literal('credit'), usd, max_credits: z.number().positive() }),
])
export type Price = z.infer<typeof price>

/** The types of models and the route that serves each. */
export const endpoints = {
  chat: '/v1/chat/completions',
  embeddings: '/v1/embeddings',
  rerank: '/v1/rerank',
  moderation: '/v1/moderations',
  ocr: '/v1/ocr',
  image: '/v1/images',
  speech: '/v1/audio/speech',
  transcription: '/v1/audio/transcriptions',
  music: '/v1/audio/music',
  sfx: '/v1/audio/sfx',
  realtime: '/v1/realtime',
  live_video: '/v1/realtime',
  video: '/v1/videos',
  lipsync: '/v1/lipsync',
  face_swap: '/v1/face-swap',
  avatar: '/v1/avatars/videos',
  mesh: '/v1/meshes',
} as const
export type ModelType = keyof typeof endpoints

const withParameters: ReadonlySet<ModelType> = new Set(['chat', 'embeddings', 'rerank', 'moderation'])
export const parametersFault =
  'are of models that are called with JSON and priced by what the gateway reads of it: chat, embeddings, rerank and moderation'

/** Whether deployments of this type may change members of requests: what media cost depends on members of any name. */
export function takesParameters(type: ModelType): boolean {
  return withParameters.has(type)
}

const modality = z.enum(['text', 'image', 'audio', 'video', 'file', 'embedding', 'mesh'])
const slug = z.string().regex(/^[a-z0-9][a-z0-9._:/@-]{0,99}$/i, 'a model slug')

/** What differs in a region from the rest of a deployment. */
const regionalDeployment = z.strictObject({
  upstream_model: z.string().min(1).optional(),
  price: price.optional(),
  price_source: z.string().optional(),
  price_as_of: z.iso.date().optional(),
})

/** A model as offered by one provider. */
export const deployment = z.strictObject({
  provider: z.string(),
  upstream_model: z.string().min(1),
  price,
  /**
   * What differs by region, by its name, the zone of its prices, or a pattern such as `europe-*`; null = it is not served there. A
   * name wins over a pattern, and a longer pattern over a shorter one.
   */
  regions: z.record(z.string().min(1), regionalDeployment.nullable()).optional(),
  /** Facts about this model at this provider that an adapter needs. */
  traits: z.preprocess(currentTraits, deploymentTraits).optional(),
  /** What the model accepts in a chat request, where it differs from its provider. */
  profile: chatProfile.optional(),
  /** Headers of each request to it. */
  headers: deploymentHeaders.optional(),
  /** Changes of the top-level members of each request to it. */
  parameters: deploymentParameters.optional(),
  /** Source and date of this price, if they differ from the row's own. */
  price_source: z.string().optional(),
  price_as_of: z.iso.date().optional(),
  /** Source of `cached_input` where it is another one, or why there is none: then it begins with `none`. */
  cached_input_source: z.string().optional(),
})
export type Deployment = z.infer<typeof deployment>

/**
 * A further provider of a model of any file. `like`: a provider of the model whose deployment has the traits, the profile and the
 * source of the cached price that this one does not state.
 */
export const addedDeployment = deployment.extend({ like: z.string().optional() })
export type AddedDeployment = z.infer<typeof addedDeployment>

/** The classes of tasks that `task_qualities` can rate; all other tasks count by `quality`. */
export const ratedTasks = ['code', 'maths', 'vision', 'long_context', 'multilingual'] as const
export type RatedTask = (typeof ratedTasks)[number]

/** A row of the catalog: one model, its inputs and outputs, and its providers with prices. */
export const modelRow = z
  .strictObject({
    id: slug,
    /** Aliases in requests: dated names, names of other vendors. An alias must not have a different price. */
    aliases: z.array(slug).default([]),
    name: z.string(),
    type: z.enum(Object.keys(endpoints) as [ModelType, ...ModelType[]]),
    /**
     * The route of a row if it differs from its type's route: a completions-only model is a chat row at
     * `/v1/completions`.
     */
    endpoint: z.literal('/v1/completions').optional(),
    owned_by: z.string(),
    created: z.int().nonnegative(),
    description: z.string(),
    context_length: z.int().positive().nullable(),
    max_output_tokens: z.int().positive().nullable(),
    input_modalities: z.array(modality),
    output_modalities: z.array(modality),
    /** Request fields the model supports beyond the common ones, as OpenRouter names them: tools, response_format … */
    supported_parameters: z.array(z.string()),
    /** 0–100, relative to the rows of one type; null if there is no comparison. */
    quality: z.number().min(0).max(100).nullable(),
    /** On the same scale, by class of tasks. */
    task_qualities: z.partialRecord(z.enum(ratedTasks), z.number().min(0).max(100)).optional(),
    /** Whether its maker allows to train other models on its output; not known without it. */
    distillable: z.boolean().optional(),
    /** From this day on, its maker no longer serves it. */
    expires_on: z.iso.date().nullable(),
    /** A model without a known public price is shipped disabled until an operator sets one. */
    disabled: z.boolean().default(false),
    price_source: z.string().nullable(),
    price_as_of: z.iso.date().nullable(),
    providers: z.array(deployment),
    /** Fields of the kind's own list, e.g. a lip-sync row's `takes`, a mesh row's `inputs` (`kind-fields.ts`). */
    kind: kindFields.optional(),
  })
  .superRefine(({ type, providers, kind = {} }, context) => {
    for (const { path, message } of faultsOfKind(type, kind))
      context.addIssue({ code: 'custom', message, path: ['kind', ...path] })
    for (const [index, { parameters }] of providers.entries())
      if (parameters && !takesParameters(type))
        context.addIssue({ code: 'custom', message: parametersFault, path: ['providers', index, 'parameters'] })
    if (type !== 'chat') return
    for (const [index, { traits }] of providers.entries())
      for (const name of foreignToChat(traits ?? {}))
        context.addIssue({
          code: 'custom',
          message: 'no chat model has it',
          path: ['providers', index, 'traits', name],
        })
  })
export type ModelRow = z.infer<typeof modelRow>

/** An upstream provider: its protocol, base URL, and how the API key is sent. */
export const providerRow = z.strictObject({
  /** A cloud's second protocol is `cloud/protocol`. */
  name: z.string().regex(/^[a-z][a-z0-9_]*(?:\/[a-z][a-z0-9_]*)?$/),
  protocol: z.string(),
  /** `{region}` and `{project}` are replaced by what is configured. */
  base_url: z.string().refine(text => URL.canParse(text.replaceAll(/\{(?:region|project)\}/g, 'x')), 'Invalid URL'),
  auth: z.enum([
    'bearer',
    'x-api-key',
    'x-goog-api-key',
    'xi-api-key',
    'api-key',
    'key',
    'token',
    'x-key',
    'jwt',
    'none',
  ]),
  /** The gateway's identity at the cloud, which is used where no API key is configured (`shared/providers/identities/`). */
  identity: z.enum(['entra', 'google', 'aws']).optional(),
  /** Regions with another base URL; null = it is not there. */
  regions: z.record(z.string(), z.strictObject({ base_url: z.string() }).nullable()).optional(),
  /** True: of a part of a cloud that is enabled by its own variable alone, such as `BEDROCK_GLOBAL_REGIONS`. */
  own_regions: z.boolean().optional(),
  /** True: a model is served where `<PROVIDER>_DEPLOYMENTS` names its deployment. */
  named_deployments: z.boolean().optional(),
  /** Differences from the protocol's common form, as data, e.g. `{"max_tokens_field":"max_completion_tokens"}`. */
  quirks: z.preprocess(currentQuirks, providerQuirks).optional(),
  /** What its models accept in a chat request. */
  profile: chatProfile.optional(),
  /** The terms from which the quirks `data_collection` and `zdr` are, and the day on which they were read. */
  terms: z.strictObject({ source: z.string().min(1), as_of: z.iso.date() }).optional(),
})
/** `region`: of a provider with regions, each of which is a row of its own (`regions.ts`). */
export type ProviderRow = z.infer<typeof providerRow> & { region?: string }

/** The origin of the `task_qualities` of a catalog file: per class of tasks, the benchmark and the date of its figures. */
export const qualitySources = z.partialRecord(
  z.enum(ratedTasks),
  z.strictObject({ source: z.string().min(1), as_of: z.iso.date() }),
)

/**
 * Names that clients still send and that no row has, with the model to use instead. A request for one is refused, and the
 * error names that model.
 */
export const retiredNames = z.strictObject({
  names: z.array(slug).min(1),
  /** The day on which their provider stopped serving them; null if that is not known, or if it serves them still. */
  retired_on: z.iso.date().nullable(),
  /** The id of the model that the provider recommends; else the nearest one of the catalog. */
  replaced_by: slug,
  source: z.string().min(1),
})
export type RetiredNames = z.infer<typeof retiredNames>

/** The shape of a catalog file, both shipped and the operator's own (`MODEL_CATALOG`). */
export const catalogFile = z.strictObject({
  providers: z.array(providerRow).default([]),
  models: z.array(modelRow).default([]),
  /** By the id of their model. */
  deployments: z.record(z.string(), z.array(addedDeployment)).default({}),
  retired: z.array(retiredNames).default([]),
  quality_sources: qualitySources.default({}),
})
