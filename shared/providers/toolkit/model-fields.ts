import type { GatewayError } from '../../base/errors.ts'
import type { WorkKind } from '../../kinds/index.ts'
import { listOf, unsupported } from '../../kinds/media.ts'
import type { QueuedCall, Source } from '../contract.ts'
import type { Json } from './json-fields.ts'
import { sourcesIn } from './list-sources.ts'

/**
 * The input of a model whose fields are its own, as providers with thousands of models have them. A deployment's traits name
 * the fields:
 *
 * - `prompt_field` (default `prompt`), `needs_prompt`
 * - `image_field`, `end_image_field`, `video_field`, `audio_field`, `face_field`, `mask_field`: where the files go
 * - `images_field`, `videos_field`, `audios_field`: lists of references; `view_fields`: further views of a mesh, by comma
 * - `duration_format` `string` (`"5"`), `string_s` (`"5s"`), `number` or `number_ms`, with `duration_field` (default `duration`)
 * - `resolution_field`, `aspect_ratio_field`, `negative_prompt_field`, `seed_field`, `sound_field`
 * - `avatar_field`, `script_field`, `voice_field`
 * - `texture_field`, `pbr_field`, `texture_prompt_field`, `target_polycount_field`, `topology_field`
 * - `n_field`: how many images; a model without one draws them one at a time
 * - `size_field`: a size in pixels as `{width, height}`; with `size_format` `text` as `"1024x1024"`, with `fields` in the two
 *   that it names by comma. `most_pixels`: above it an image costs more than the row's price
 * - `aspect_ratios`: those that the model takes, by comma; default the row's own list. A size in pixels becomes one of these
 *   where the model takes no sizes, but has about the `pixels` that it draws (default 1024 x 1024)
 * - `quality_field`, `background_field`, `compression_field`, `fidelity_field`, `moderation_field`
 * - `lyrics_field`, `needs_lyrics`, `instrumental_field`
 * - `formats`: the kinds of files it gives, by comma, its own first, as `png` or with the model's own name as `jpeg=jpg`;
 *   `format_field`: where it is told which, without it only the first is given
 * - `model`: another model than `upstream_model`
 * - `input.<name>`: a value that is sent as `<name>` where nothing else is
 *
 * A trait after the mode's name and `_` is that mode's own: `image_model`, `text_aspect_ratio_field`. The modes are those of
 * videos (`text`, `image`, `reference`, `motion_control`, `video`), what a lip sync takes (`image`, `video`), what an avatar
 * is made from (`image`, `avatar`), what a mesh is made from (`text`, `image`, `multi_image`) and whether an image is drawn
 * from references (`edit`, else `text`).
 */
export type ModelInput = { model: string; input: Json; params: Params }

/** Maps the model's fields to ours. */
export type Params = Record<string, string>

/**
 * `inlineBytes`: maximum size of a file inlined into the input when the provider cannot reach this gateway.
 * `sizeNames`: the provider's names for sizes of common aspect ratios.
 */
export type InputOptions = { inlineBytes: number; sizeNames?: Readonly<Record<string, string>> }

const constantPrefix = 'input.'

/**
 * Builds a model's input under the names that a deployment's traits give. Throws a GatewayError 400 for an input
 * without a name.
 */
export class ModelInputBuilder<K extends WorkKind> {
  readonly #call: QueuedCall<K>
  readonly #mode: string
  readonly #inlineBytes: number
  readonly #json: Json = {}
  readonly #params: Params = {}

  constructor(call: QueuedCall<K>, mode: string, { inlineBytes }: InputOptions) {
    this.#call = call
    this.#mode = mode
    this.#inlineBytes = inlineBytes
    for (const [name, value] of Object.entries(this.#traits))
      if (name.startsWith(constantPrefix)) this.#json[name.slice(constantPrefix.length)] = value
  }

  get #traits() {
    return this.#call.target.deployment.traits ?? {}
  }

  trait(name: string): string | null {
    const value = this.#traits[`${this.#mode}_${name}`] ?? this.#traits[name]
    return value === undefined ? null : String(value)
  }

  /** A comma-separated trait. */
  list(name: string): string[] {
    return this.trait(name)?.split(',') ?? []
  }

  has(trait: string): boolean {
    return this.trait(trait) !== null
  }

  result(): ModelInput {
    const model = this.trait('model') ?? this.#call.target.deployment.upstream_model
    return { model, input: this.#json, params: this.#params }
  }

  /**
   * Sets a value under the name that the trait gives; omits null, and values that are the default of a model without
   * that field.
   */
  value(trait: string, param: string, value: unknown, defaultValue: unknown = null): void {
    if (value === null || (value === defaultValue && !this.has(trait))) return
    const name = this.trait(trait)
    if (name === null) throw this.unsupported(param)
    this.set(name, param, value)
  }

  /** Sets a value under one of the model's own names. */
  set(name: string, param: string, value: unknown): void {
    this.#json[name] = value
    this.#params[name] = param
  }

  prompt(prompt: string | null): void {
    if (prompt !== null) this.set(this.trait('prompt_field') ?? 'prompt', 'prompt', prompt)
    else if (this.has('needs_prompt')) throw unsupported(this.#call.target.model, 'prompt', 'needs a `prompt`')
  }

  /** Sets a choice from the row's list; it is omitted for models that offer only one. */
  choice(trait: string, param: string, value: string | null): void {
    if (this.has(trait) || listOf(this.#call.target.model, `${param}s`).length !== 1) this.value(trait, param, value)
  }

  duration(seconds: number, param: string): void {
    const format = this.trait('duration_format')
    const durations = listOf<number>(this.#call.target.model, 'durations')
    const only = durations.length === 1 && durations[0] === seconds
    // The billed option must be the one produced.
    if (format === null && !only) throw this.unsupported(param)
    if (format === null) return
    const texts: Record<string, unknown> = {
      number: seconds,
      number_ms: Math.round(seconds * 1_000),
      string: String(seconds),
      string_s: `${seconds}s`,
    }
    if (!(format in texts)) throw new Error(`${this.#call.target.model.id} has a strange duration_format`)
    this.set(this.trait('duration_field') ?? 'duration', param, texts[format])
  }

  /** Sets the file format. `defaultValue`: the default of models whose traits name none. */
  format(requested: string | null, defaultValue: string | null = null): void {
    if (requested === null) return
    const field = this.trait('format_field')
    const given = this.has('formats') ? this.list('formats') : defaultValue === null ? [] : [defaultValue]
    const offered = field === null ? given.slice(0, 1) : given
    const found = offered.map(entry => entry.split('=')).find(([name]) => name === requested)
    if (!found) throw this.unsupported('output_format', `gives no ${requested}`)
    if (field !== null) this.set(field, 'output_format', found.at(-1))
  }

  async file(trait: string, field: string): Promise<void> {
    const source = this.#call.sources.get(field)
    if (!source) return
    if (!this.has(trait)) throw this.unsupported(field)
    this.value(trait, field, await this.#address(source))
  }

  async files(trait: string, field: string): Promise<void> {
    const sources = sourcesIn(this.#call.sources, field)
    if (sources.length === 0) return
    if (!this.has(trait)) throw this.unsupported(field)
    this.value(trait, field, await Promise.all(sources.map(source => this.#address(source))))
  }

  /** Sets the views of one object: in one list, or one field each with the front first. */
  async views(): Promise<void> {
    const further = this.list('view_fields')
    if (further.length === 0) return this.files('images_field', 'image_urls')
    const names = [this.trait('image_field'), ...further]
    for (const [i, source] of sourcesIn(this.#call.sources, 'image_urls').entries()) {
      const name = names[i]
      if (!name) throw this.unsupported(`image_urls.${i}`)
      this.set(name, `image_urls.${i}`, await this.#address(source))
    }
  }

  #address(source: Source): Promise<string> {
    return source.bytes <= this.#inlineBytes ? source.link() : source.url()
  }

  unsupported(param: string, problem = `does not take \`${param}\` here`): GatewayError {
    const { model, provider } = this.#call.target
    return unsupported(model, param, `at ${provider.name} ${problem}`)
  }
}
