/** Types shared by the pages that show models and their route. */

/** USD per unit as decimal strings, including the service’s margin; units are named as in `GET /v1/models`. */
export type Pricing = Record<string, string>

export type ModelProvider = {
  name: string
  /** In cooldown: it failed repeatedly or sent a retry-after, and is called again later. */
  status: 'available' | 'in_cooldown' | 'not_configured'
  pricing: Pricing
  /** Prices of the whole call once its prompt is longer than `tokens`. */
  above: { tokens: number; pricing: Pricing } | null
  /** What `provider.data_collection`, `zdr` and `quantizations` of a request ask for; null = not known. */
  data_collection: boolean | null
  zdr: boolean | null
  quantization: string | null
  /** Whether its realtime sessions use OpenAI’s events; false for models of other types too. */
  openai_events: boolean
}

export type CatalogModel = {
  id: string
  name: string
  description: string
  owned_by: string
  type: string
  endpoint: string
  context_length: number | null
  max_output_tokens: number | null
  input_modalities: string[]
  output_modalities: string[]
  supported_parameters: string[]
  quality: number | null
  /** By class of tasks, where they differ: code, maths, vision … */
  task_qualities: Record<string, number>
  expires_on: string | null
  /** Whether a live key can use it: a provider that serves it is configured. */
  available: boolean
  /** In order of preference. */
  providers: ModelProvider[]
  /** Fields specific to its kind, such as a speech model’s `voices`. */
  kind: Record<string, unknown>
}

/** GET /dashboard/api/organisations/{organisation}/models */
export type ModelsAnswer = { data: CatalogModel[] }
