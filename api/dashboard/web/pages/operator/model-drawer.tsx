import { Button, Group, Stack, Text, TextInput, Title } from '@mantine/core'
import { useState } from 'react'
import type { CatalogOffer, OperatorModel, Price } from '../../../wire/operator-catalog.ts'
import { priceText } from '../../catalog.ts'
import { OpenDrawer } from '../../components/dialogs.tsx'
import { Form } from '../../components/form.tsx'
import { Failure } from '../../components/states.tsx'
import { useAddAlias, usePatchModel, useRemoveAlias } from './catalog-queries.ts'
import { draftOf, PriceField, priceOfDraft } from './price-field.tsx'
import { AliasPill, SharedAliases } from './shared-aliases.tsx'

/** A price in one line, in USD. */
export function offerText(price: Price): string {
  if (price.unit === 'token')
    return `${priceText(Number(price.input))} in, ${priceText(Number(price.output))} out per million tokens`
  const units: Record<string, string> = { character: 'million characters', flat: 'result' }
  return `${priceText(Number(price.usd))} per ${units[price.unit] ?? price.unit}`
}

/** Edits a model: its prices by provider, its aliases, and back to the files. */
export function ModelDrawer({ model, onClose }: { model: OperatorModel; onClose: () => void }) {
  const reset = usePatchModel(model.id, onClose)
  const changed = model.offers.filter(({ file_price }) => file_price !== null).map(({ provider }) => provider)
  return (
    <OpenDrawer onClose={onClose} title={model.id} position="right" size="lg">
      <Stack gap="lg">
        {model.offers.map(offer => (
          <OfferForm key={`${offer.provider} ${JSON.stringify(offer.price)}`} model={model} offer={offer} />
        ))}
        <Aliases model={model} />
        {model.type === 'chat' && <SharedAliases model={model} />}
        {reset.error && <Failure error={reset.error} />}
        {(model.state_changed || changed.length > 0) && (
          <Button
            variant="default"
            loading={reset.isPending}
            onClick={() =>
              reset.mutate({ disabled: null, prices: Object.fromEntries(changed.map(provider => [provider, null])) })
            }
          >
            Reset state and prices to the catalog file
          </Button>
        )}
      </Stack>
    </OpenDrawer>
  )
}

function OfferForm({ model, offer }: { model: OperatorModel; offer: CatalogOffer }) {
  const [draft, setDraft] = useState(() => draftOf(offer.price))
  const price = priceOfDraft(draft)
  const patch = usePatchModel(model.id)
  const save = () => price && patch.mutate({ prices: { [offer.provider]: price } })
  const isSame = JSON.stringify(price) === JSON.stringify(offer.price)
  return (
    <Stack gap="xs" component="section" aria-label={`Price at ${offer.provider}`}>
      <Title order={3} size="h5">
        {offer.provider}
        <Text span size="xs" c="dimmed" ml="xs" fw={400}>
          {offer.upstream_model}
          {!offer.configured && ', not configured'}
        </Text>
      </Title>
      {offer.file_price !== null && (
        <Text size="xs" c="dimmed">
          Catalog file: {offerText(offer.file_price)}
        </Text>
      )}
      <PriceField draft={draft} onChange={setDraft} />
      {patch.error && <Failure error={patch.error} />}
      <Group>
        <Button size="compact-sm" disabled={price === null || isSame} loading={patch.isPending} onClick={save}>
          Save price
        </Button>
      </Group>
    </Stack>
  )
}

function Aliases({ model }: { model: OperatorModel }) {
  const [alias, setAlias] = useState('')
  const add = useAddAlias({ alias, model: model.id }, () => setAlias(''))
  const remove = useRemoveAlias()
  return (
    <Stack gap="xs" component="section" aria-label="Aliases">
      <Title order={3} size="h5">
        Aliases
      </Title>
      <Group gap="xs">
        {model.aliases.map(name => (
          <AliasPill key={name} name={name} remove={remove.mutate} />
        ))}
      </Group>
      {remove.error && <Failure error={remove.error} />}
      <Form mutation={add} submit="Add alias" variant="default" disabled={alias.trim() === ''}>
        <TextInput
          label="New alias"
          description="Requests may use this name; answers contain the model’s own."
          maxLength={100}
          value={alias}
          onChange={event => setAlias(event.currentTarget.value)}
        />
      </Form>
    </Stack>
  )
}
