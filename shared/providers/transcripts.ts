import { unsupported } from '../kinds/media.ts'
import { optionsOf, type TranscriptionInput, type TranscriptionOption } from '../kinds/transcription.ts'
import type { Target } from './contract.ts'

/** What the adapters of providers that are paid by the minute have in common. */

const fields: Record<TranscriptionOption, string> = { speakers: 'response_format', keywords: 'keywords' }

/** Asserts that the price row has every option of a transcription: some cost extra. Throws 400 naming the field. */
export function assertPriced({ model, deployment: { price }, provider }: Target, input: TranscriptionInput): void {
  for (const option of optionsOf(input)) {
    const isPriced = price.unit === 'minute' && price.added_by_option?.[option] !== undefined
    if (!isPriced) throw unsupported(model, fields[option], `at ${provider.name} has no price for ${option}`)
  }
}

/** The speakers of a transcript by the provider's own marks, named `A`, `B` … in the order in which they are asked for. */
export class SpeakerNames {
  readonly #names = new Map<string, string>()

  nameOf(mark: string): string {
    const known = this.#names.get(mark)
    if (known !== undefined) return known
    const name = nameAt(this.#names.size)
    this.#names.set(mark, name)
    return name
  }
}

/** `A` to `Z`, then `AA`, `AB` … */
function nameAt(position: number): string {
  const letter = String.fromCharCode(65 + (position % 26))
  return position < 26 ? letter : nameAt(Math.floor(position / 26) - 1) + letter
}
