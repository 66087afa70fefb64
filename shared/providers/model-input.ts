import type { QueuedKind } from '../kinds/index.ts'
import { unsupported } from '../kinds/media.ts'
import type { QueuedCall, Source } from './contract.ts'
import type { Json } from './fields.ts'
import { sourcesIn } from './sources.ts'

/**
 * The input of a model whose fields are its own, as providers with thousands of models have them. A deployment's traits name
 * the fields:
 *
 * - `prompt_field` (default `prompt`), `needs_prompt`
 * - `image_field`, `end_image_field`, `video_field`, `audio_field`, `face_field`: where the files go
 * - `images_field`, `videos_field`, `audios_field`: lists of references; `view_fields`: further views of a mesh, by comma
 * - `duration_format` `string` (`"5"`), `string_s` (`"5s"`) or `number`, with `duration_field` (default `duration`)
 * - `resolution_field`, `aspect_ratio_field`, `negative_prompt_field`, `seed_field`, `sound_field`
 * - `avatar_field`, `script_field`, `voice_field`
 * - `texture_field`, `pbr_field`, `texture_prompt_field`, `target_polycount_field`, `topology_field`
 * - `model`: another model than `upstream_model`
 * - `input.<name>`: a value that is always sent as `<name>`
 *
 * A trait after the mode's name and `_` is that mode's own: `image_model`, `text_aspect_ratio_field`. The modes are those of
 * videos (`text`, `image`, `reference`, `motion_control`, `video`), what a lip sync takes (`image`, `video`), what an avatar
 * is made from (`image`, `avatar`) and what a mesh is made from (`text`, `image`, `multi_image`).
 */
export type ModelInput = { model: string; input: Json }

/** `inlineBytes`: up to which size a file may stand in the input when the provider cannot reach this gateway. */
type Options = { inlineBytes: number }

export async function videoInput(call: QueuedCall<'video'>, options: Options): Promise<ModelInput> {
  const { input } = call
  const fields = new Fields(call, input.mode, options)
  fields.prompt(input.prompt)
  await fields.file('image_field', 'start_image_url')
  await fields.file('end_image_field', 'end_image_url')
  await fields.file('video_field', 'input_video_url')
  await fields.files('images_field', 'input_references')
  await fields.files('videos_field', 'input_video_references')
  await fields.files('audios_field', 'input_audio_references')
  if (input.mode !== 'motion_control' && input.mode !== 'video') fields.duration(input.seconds)
  fields.choice('resolution_field', 'resolution', input.resolution)
  fields.value('aspect_ratio_field', 'aspect_ratio', input.aspectRatio)
  fields.value('negative_prompt_field', 'negative_prompt', input.negativePrompt)
  fields.value('seed_field', 'seed', input.seed)
  // A model without sound need not be told to be silent.
  const isSilence = input.audio === false && !call.target.model.kind?.audio && !fields.has('sound_field')
  if (!isSilence) fields.value('sound_field', 'audio', input.audio)
  return fields.result()
}

export async function lipsyncInput(call: QueuedCall<'lipsync'>, options: Options): Promise<ModelInput> {
  const { input } = call
  const fields = new Fields(call, input.takes, options)
  await fields.file('image_field', 'image_url')
  await fields.file('video_field', 'video_url')
  await fields.file('audio_field', 'audio_url')
  fields.prompt(input.prompt)
  fields.choice('resolution_field', 'resolution', input.resolution)
  return fields.result()
}

export async function faceSwapInput(call: QueuedCall<'face_swap'>, options: Options): Promise<ModelInput> {
  const fields = new Fields(call, 'video', options)
  await fields.file('video_field', 'video_url')
  await fields.file('face_field', 'face_image_url')
  return fields.result()
}

export async function avatarInput(call: QueuedCall<'avatar'>, options: Options): Promise<ModelInput> {
  const { input } = call
  const fields = new Fields(call, input.avatarId ? 'avatar' : 'image', options)
  fields.value('avatar_field', 'avatar_id', input.avatarId)
  await fields.file('image_field', 'image_url')
  fields.value('script_field', 'script', input.script)
  fields.value('voice_field', 'voice_id', input.voiceId)
  await fields.file('audio_field', 'audio_url')
  fields.choice('resolution_field', 'resolution', input.resolution)
  fields.value('aspect_ratio_field', 'aspect_ratio', input.aspectRatio)
  return fields.result()
}

export async function meshInput(call: QueuedCall<'mesh'>, options: Options): Promise<ModelInput> {
  const { input } = call
  const fields = new Fields(call, input.from, options)
  fields.prompt(input.prompt)
  await fields.file('image_field', 'image_url')
  await fields.views()
  // On by default: a model without such a switch always makes a texture.
  fields.value('texture_field', 'texture', input.texture && !fields.has('texture_field') ? null : input.texture)
  fields.value('pbr_field', 'pbr', !input.pbr && !fields.has('pbr_field') ? null : input.pbr)
  fields.value('texture_prompt_field', 'texture_prompt', input.texturePrompt)
  fields.value('target_polycount_field', 'target_polycount', input.targetPolycount)
  fields.value('topology_field', 'topology', input.topology)
  fields.value('seed_field', 'seed', input.seed)
  return fields.result()
}

const constantPrefix = 'input.'

/** Fills a model's input under the names that a deployment's traits give. Throws a GatewayError 400 for what has no name. */
class Fields<K extends QueuedKind> {
  readonly #call: QueuedCall<K>
  readonly #mode: string
  readonly #inlineBytes: number
  readonly #json: Json = {}

  constructor(call: QueuedCall<K>, mode: string, { inlineBytes }: Options) {
    this.#call = call
    this.#mode = mode
    this.#inlineBytes = inlineBytes
    for (const [name, value] of Object.entries(this.#traits))
      if (name.startsWith(constantPrefix)) this.#json[name.slice(constantPrefix.length)] = value
  }

  get #traits() {
    return this.#call.target.deployment.traits ?? {}
  }

  #trait(name: string): string | null {
    const value = this.#traits[`${this.#mode}_${name}`] ?? this.#traits[name]
    return value === undefined ? null : String(value)
  }

  has(trait: string): boolean {
    return this.#trait(trait) !== null
  }

  result(): ModelInput {
    return { model: this.#trait('model') ?? this.#call.target.deployment.upstream_model, input: this.#json }
  }

  /** A value under the name that the trait gives; null is left out. */
  value(trait: string, param: string, value: unknown): void {
    if (value === null) return
    const name = this.#trait(trait)
    if (name === null) throw this.#unsupported(param)
    this.#json[name] = value
  }

  prompt(prompt: string | null): void {
    if (prompt !== null) this.#json[this.#trait('prompt_field') ?? 'prompt'] = prompt
    else if (this.has('needs_prompt')) throw unsupported(this.#call.target.model, 'prompt', 'needs a `prompt`')
  }

  /** A choice of the row's list; a model that gives only one is not told which. */
  choice(trait: string, param: string, value: string | null): void {
    const offered = this.#call.target.model.kind?.[`${param}s`]
    const only = Array.isArray(offered) && offered.length === 1
    if (this.has(trait) || !only) this.value(trait, param, value)
  }

  duration(seconds: number): void {
    const format = this.#trait('duration_format')
    const durations = this.#call.target.model.kind?.durations
    const only = Array.isArray(durations) && durations.length === 1 && durations[0] === seconds
    // What is billed must be what is made.
    if (format === null && !only) throw this.#unsupported('seconds')
    if (format === null) return
    const texts: Record<string, unknown> = { number: seconds, string: String(seconds), string_s: `${seconds}s` }
    if (!(format in texts)) throw new Error(`${this.#call.target.model.id} has a strange duration_format`)
    this.#json[this.#trait('duration_field') ?? 'duration'] = texts[format]
  }

  async file(trait: string, field: string): Promise<void> {
    const source = this.#call.sources.get(field)
    if (!source) return
    if (!this.has(trait)) throw this.#unsupported(field)
    this.value(trait, field, await this.#address(source))
  }

  async files(trait: string, field: string): Promise<void> {
    const sources = sourcesIn(this.#call.sources, field)
    if (sources.length === 0) return
    if (!this.has(trait)) throw this.#unsupported(field)
    this.value(trait, field, await Promise.all(sources.map(source => this.#address(source))))
  }

  /** The views of one object: in one list, or front first in a field each. */
  async views(): Promise<void> {
    const further = this.#trait('view_fields')?.split(',')
    if (!further) return this.files('images_field', 'image_urls')
    const names = [this.#trait('image_field'), ...further]
    for (const [i, source] of sourcesIn(this.#call.sources, 'image_urls').entries()) {
      const name = names[i]
      if (!name) throw this.#unsupported(`image_urls.${i}`)
      this.#json[name] = await this.#address(source)
    }
  }

  #address(source: Source): Promise<string> {
    return source.bytes <= this.#inlineBytes ? source.link() : source.url()
  }

  #unsupported(param: string) {
    const { model, provider } = this.#call.target
    return unsupported(model, param, `at ${provider.name} does not take \`${param}\` here`)
  }
}
