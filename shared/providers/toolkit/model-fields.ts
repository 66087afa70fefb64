import type { GatewayError } from '../../base/errors.ts'
import type { DeploymentTraits, FieldMode, FieldTraits } from '../../catalog/deployment-traits.ts'
import type { WorkKind } from '../../kinds/index.ts'
import { listOf, unsupported } from '../../kinds/media.ts'
import type { QueuedCall, Source } from '../contract.ts'
import type { Json } from './json-fields.ts'
import { sourcesIn } from './list-sources.ts'

/**
 * The input of a model whose fields are its own, as providers with thousands of models have them. A deployment's traits name
 * the fields (`shared/catalog/deployment-traits.ts`), in general or by the mode. The modes are those of videos (`text`,
 * `image`, `reference`, `motion_control`, `video`), what a lip sync takes (`image`, `video`), what an avatar is made from
 * (`image`, `avatar`), what a mesh is made from (`text`, `image`, `multi_image`) and whether an image is drawn from
 * references (`edit`, else `text`).
 */
export type ModelInput = { model: string; input: Json; params: Params }

/** Maps the model's fields to ours. */
type Params = Record<string, string>

/**
 * `inlineBytes`: maximum size of a file inlined into the input when the provider cannot reach this gateway.
 * `sizeNames`: the provider's names for sizes of common aspect ratios.
 */
export type InputOptions = { inlineBytes: number; sizeNames?: Readonly<Record<string, string>> }

/** The traits that name a field of the model. */
type FieldName = Extract<keyof FieldTraits, `${string}_field`>

/**
 * Builds a model's input under the names that a deployment's traits give. Throws a GatewayError 400 for an input
 * without a name.
 */
export class ModelInputBuilder<K extends WorkKind> {
  readonly #call: QueuedCall<K>
  readonly #mode: FieldMode
  readonly #inlineBytes: number
  readonly #json: Json
  readonly #params: Params = {}

  constructor(call: QueuedCall<K>, mode: FieldMode, { inlineBytes }: InputOptions) {
    this.#call = call
    this.#mode = mode
    this.#inlineBytes = inlineBytes
    this.#json = { ...this.#traits.input }
  }

  get #traits(): DeploymentTraits {
    return this.#call.target.deployment.traits ?? {}
  }

  /** A trait of the mode, else of the model; null if there is none. */
  trait<Name extends keyof FieldTraits>(name: Name): NonNullable<FieldTraits[Name]> | null {
    return this.#traits.by_mode?.[this.#mode]?.[name] ?? this.#traits[name] ?? null
  }

  has(trait: keyof FieldTraits): boolean {
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
  value(trait: FieldName, param: string, value: unknown, defaultValue: unknown = null): void {
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
    else if (this.trait('needs_prompt')) throw unsupported(this.#call.target.model, 'prompt', 'needs a `prompt`')
  }

  /** Sets a choice from the row's list; it is omitted for models that offer only one. */
  choice(trait: FieldName, param: string, value: string | null): void {
    if (this.has(trait) || listOf(this.#call.target.model, `${param}s`).length !== 1) this.value(trait, param, value)
  }

  duration(seconds: number, param: string): void {
    const format = this.trait('duration_format')
    const durations = listOf<number>(this.#call.target.model, 'durations')
    const only = durations.length === 1 && durations[0] === seconds
    // The billed option must be the one produced.
    if (format === null && !only) throw this.unsupported(param)
    if (format === null) return
    const lengths = {
      number: seconds,
      number_ms: Math.round(seconds * 1_000),
      string: String(seconds),
      string_s: `${seconds}s`,
    }
    this.set(this.trait('duration_field') ?? 'duration', param, lengths[format])
  }

  /** Sets the file format. `defaultValue`: the default of models whose traits name none. */
  format(requested: string | null, defaultValue: string | null = null): void {
    if (requested === null) return
    const field = this.trait('format_field')
    const formats = this.trait('formats') ?? (defaultValue === null ? [] : [defaultValue])
    const offered = field === null ? formats.slice(0, 1) : formats
    if (!offered.includes(requested)) throw this.unsupported('output_format', `gives no ${requested}`)
    if (field !== null) this.set(field, 'output_format', this.trait('format_names')?.[requested] ?? requested)
  }

  async file(trait: FieldName, field: string): Promise<void> {
    const source = this.#call.sources.get(field)
    if (!source) return
    if (!this.has(trait)) throw this.unsupported(field)
    this.value(trait, field, await this.#address(source))
  }

  async files(trait: FieldName, field: string): Promise<void> {
    const sources = sourcesIn(this.#call.sources, field)
    if (sources.length === 0) return
    if (!this.has(trait)) throw this.unsupported(field)
    this.value(trait, field, await Promise.all(sources.map(source => this.#address(source))))
  }

  /** Sets the views of one object: in one list, or one field each with the front first. */
  async views(): Promise<void> {
    const further = this.trait('view_fields')
    if (further === null) return this.files('images_field', 'image_urls')
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
