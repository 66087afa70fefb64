import { JsonInput, NumberInput, SimpleGrid } from '@mantine/core'
import type { Price } from '../../../wire/operator-catalog.ts'

/** The classes of tokens with a price of their own, as the catalog names them. */
const classes = [
  ['input', 'Input'],
  ['output', 'Output'],
  ['cached_input', 'Cached input'],
  ['cache_write', 'Cache write'],
] as const

/** A price as the form edits it: other prices than those per token are edited as JSON. */
type PriceDraft = { price: Price; text: string }
export const draftOf = (price: Price): PriceDraft => ({ price, text: JSON.stringify(price, null, 2) })

/** The price of a draft; null while it is not valid. */
export function priceOfDraft({ price, text }: PriceDraft): Price | null {
  if (price.unit === 'token') return price
  try {
    return JSON.parse(text) as Price
  } catch {
    return null
  }
}

/** Edits a price in USD without the margin; per million tokens. */
export function PriceField({ draft, onChange }: { draft: PriceDraft; onChange: (draft: PriceDraft) => void }) {
  const { price, text } = draft
  if (price.unit !== 'token')
    return (
      <JsonInput
        label={`Price per ${price.unit}`}
        description="In the format of the catalog file, in USD."
        autosize
        minRows={4}
        value={text}
        onChange={value => onChange({ price, text: value })}
      />
    )
  const set = (name: string, value: number | string) => {
    const { [name as 'cached_input']: _, ...rest } = price
    onChange({ price: (value === '' ? rest : { ...rest, [name]: String(value) }) as Price, text })
  }
  return (
    <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
      {classes.map(([name, label]) => (
        <NumberInput
          key={name}
          label={`${label}, per million tokens`}
          required={name === 'input' || name === 'output'}
          placeholder={name === 'input' || name === 'output' ? undefined : 'as input'}
          prefix="$"
          min={0}
          decimalScale={6}
          value={price[name] ?? ''}
          onChange={value => set(name, value)}
        />
      ))}
    </SimpleGrid>
  )
}
