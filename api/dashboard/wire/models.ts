/** What the pages that show models and their route tell each other. */

/** USD per unit as decimal strings, the service’s margin included, as `GET /v1/models` names the units. */
export type Pricing = Record<string, string>

export type ModelProvider = {
  name: string
  /** Resting: it failed repeatedly or asked to be left alone, and is called again later. */
  status: 'available' | 'resting' | 'not_configured'
  pricing: Pricing
  /** What a whole call costs once its prompt is longer than `tokens`. */
  above: { tokens: number; pricing: Pricing } | null
  /** Whether realtime sessions there speak OpenAI’s events; false for models of other types too. */
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
  expires_on: string | null
  /** Whether a live key can use it: a provider that serves it is configured. */
  available: boolean
  /** In the order in which they are preferred. */
  providers: ModelProvider[]
  /** Facts of its kind, such as a speech model’s `voices`. */
  kind: Record<string, unknown>
}

/** GET /dashboard/api/organisations/{organisation}/models */
export type ModelsAnswer = { data: CatalogModel[] }
