import { z } from 'zod'
import dialects from './dialects.json' with { type: 'json' }
import { quantizations } from './provider-preferences.ts'

const flag = z.boolean()
const text = z.string().min(1)
const names = z.array(text)

/** What both a provider's quirks and a deployment's traits may state; the trait wins (`traitOf`). */
export const servedTraits = {
  responses: flag.describe('True: requests in the Responses format are sent as they are; else they become chat.'),
  namespace_tools: flag.describe('True: its Responses take tools of the type `namespace`.'),
  compaction: flag.describe(
    'True: its Responses take `compaction_trigger`, and the `compaction` items that they give.',
  ),
  file_formats: names.describe(
    'The formats of files that it transcribes, by their usual extensions; without a list any.',
  ),
  tokenizer: z.literal('o200k').describe("Its tokenizer is the gateway's own, so that counted tokens need no margin."),
  image_tokens_max: z.int().positive().describe('The most tokens that one image of a prompt is billed as.'),
  audio_tokens_per_second: z.number().positive().describe('The most tokens that a second of audio is billed as.'),
  page_tokens_max: z
    .int()
    .positive()
    .describe('The most tokens that the image of a page of a document is billed as; without it as any image.'),
  documents_text: flag.describe('False: the text of a document is not billed beside the images of its pages.'),
  reasoning_beside_limit: flag.describe('True: the output limit does not bound reasoning and tool calls.'),
  data_collection: flag.describe(
    'False: by its terms it neither trains on requests nor keeps them for other purposes than answering and finding abuse. Without it, not known.',
  ),
  zdr: flag.describe(
    'True: it keeps nothing of a request (zero data retention), by its terms or by an agreement of your own. Without it, not known.',
  ),
  quantization: z.enum(quantizations).describe('The precision of the weights that it serves. Without it, not known.'),
}

/** What only a provider's quirks may state. */
export const ownQuirks = {
  audio: flag.describe('True: it has the routes for speech and transcriptions.'),
  batches: flag.describe("True: it has the protocol's own batches."),
  images: z.enum(dialects.images).describe('The form of its image routes; without it, it has none.'),
  videos: z.enum(dialects.videos).describe('The form of its video routes; without it, it has none.'),
  rerank: z.enum(dialects.rankings).describe("The form of its rankings; Jina's by default."),
  request_fields: names.describe(
    'The only fields that its chat, completions and embeddings take beside those that every request needs.',
  ),
  extra_fields: names.describe(
    'Fields of chat, completions and embeddings that it takes beside the usual ones, or beside `request_fields`.',
  ),
  responses_fields: names.describe('Fields that its Responses take beside those of OpenAI.'),
  max_tokens_field: z
    .enum(['max_tokens', 'max_completion_tokens'])
    .describe('The field that it reads the output limit from; `max_tokens` by default.'),
  seed_field: text.describe('Its name of `seed`.'),
  dimensions_field: text.describe('Its name of `dimensions`.'),
  input_types: z
    .record(text, text)
    .describe('Its names of the types that a text can have (`input_type` of embeddings), by those of other providers.'),
  encoding_format: flag.describe(
    'False: its embeddings take no `encoding_format`; vectors are converted to the one asked for.',
  ),
  stream_usage: flag.describe('False: it refuses `stream_options`, and sends the usage of a stream without.'),
  token_inputs: flag.describe('False: prompts and inputs of embeddings must be text, not token ids.'),
  cache_control: flag.describe('True: its chat takes the marks `cache_control`.'),
  reasoning_details: flag.describe('True: it reads the `reasoning_details` of earlier answers.'),
  service_tier: text.describe('The `service_tier` of every request without one of its own that has a price.'),
  store: flag.describe('The value of `store` in every request.'),
  cost_field: text.describe('The field of `usage` in which it states what a request cost.'),
  betas: names.describe(
    "The names in `anthropic-beta` that it takes; the others are not sent, nor the members of a request that they open (Anthropic's protocol). Without a list all are sent.",
  ),
  api_version: text.describe('The version of its API (Runway).'),
  credential_path: text.describe(
    "What is requested to check an API key (OpenAI's protocol); `/models` by default. `none`: nothing, as for a part of a cloud whose keys are checked elsewhere (also Anthropic's protocol).",
  ),
  signing_name: text.describe(
    "The name of its service in signatures (AWS); by default the cloud's, as the provider's name begins.",
  ),
  jwks_url: z.url().describe('Where the keys are published that sign its callbacks (fal).'),
}

/** Differences of a provider from the usual form of its protocol. The tables in docs/providers.md are made of these. */
export const providerQuirks = z.strictObject({ ...ownQuirks, ...servedTraits }).partial()
export type ProviderQuirks = z.infer<typeof providerQuirks>
