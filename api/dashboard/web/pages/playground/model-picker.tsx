import { Anchor, Badge, Group, Select, Stack, Text } from '@mantine/core'
import { Link, useSearchParams } from 'wouter'
import type { CatalogModel } from '../../../wire/models.ts'
import { isOffered, leadOf, priceSummary } from '../../catalog.ts'
import { usePlace } from '../../session.tsx'
import { usePersistedField } from './persisted-field.ts'
import { usePlayground } from './playground-context.ts'

const maxShown = 200

type Choice = {
  /** The models that the key can use here. */
  models: CatalogModel[]
  /** Undefined if none or `auto` is selected. */
  model: CatalogModel | undefined
  /** The slug to send; '' if there are no models. */
  slug: string
  choose: (slug: string) => void
}

/** The model of a tab: from the URL, otherwise the last one selected in the tab, otherwise `usual`, otherwise the first. */
export function useChoice(tab: string, serves: (model: CatalogModel) => boolean, usual = ''): Choice {
  const { apiKey, models: all } = usePlayground()
  const [search, setSearch] = useSearchParams()
  const [persisted, persist] = usePersistedField(`${tab}.model`, usual)
  const models = all.filter(model => serves(model) && isOffered(apiKey, model))
  const wanted = search.get('model') ?? persisted
  const model = models.find(({ id }) => id === wanted)
  const isAuto = usual === 'auto' && wanted === 'auto'
  const chosen = model ?? (isAuto || usual === 'auto' ? undefined : models[0])
  return {
    models,
    model: chosen,
    slug: chosen?.id ?? usual,
    choose: slug => {
      persist(slug)
      setSearch({ model: slug }, { replace: true })
    },
  }
}

/** Selects a model by name or slug, and shows its price for the key. */
export function ModelPicker({ choice, auto = false }: { choice: Choice; auto?: boolean }) {
  const { apiKey } = usePlayground()
  const { home } = usePlace()
  const { models, model, slug, choose } = choice
  const byId = new Map(models.map(row => [row.id, row]))
  const autoItem = { value: 'auto', label: 'auto: selected by the gateway' }
  return (
    <Stack gap={4}>
      <Select
        label="Model"
        searchable
        allowDeselect={false}
        limit={maxShown}
        nothingFoundMessage="No matching model for this key"
        data={[...(auto ? [autoItem] : []), ...models.map(({ id, name }) => ({ value: id, label: `${name} (${id})` }))]}
        value={slug || null}
        onChange={value => value && choose(value)}
        renderOption={({ option }) => <Option label={option.label} model={byId.get(option.value)} />}
        error={models.length === 0 && !auto ? 'This key cannot use any model of this type.' : undefined}
      />
      {model && (
        <Group gap="xs" justify="space-between" wrap="nowrap" align="flex-start">
          <Text size="xs" c="dimmed">
            {apiKey.environment === 'test' ? `Sandbox; a live key pays ${priceSummary(model)}` : priceSummary(model)}
          </Text>
          <Anchor component={Link} href={`${home}/models/${model.id}`} size="xs">
            Details
          </Anchor>
        </Group>
      )}
      {model && leadOf(model)?.status === 'in_cooldown' && (
        <Badge color="yellow">Its provider is failing at the moment; another one is tried</Badge>
      )}
    </Stack>
  )
}

function Option({ label, model }: { label: string; model: CatalogModel | undefined }) {
  return (
    <Stack gap={0}>
      <Text size="sm">{label}</Text>
      <Text size="xs" c="dimmed">
        {model ? priceSummary(model) : 'Each request is routed to the best model for it'}
      </Text>
    </Stack>
  )
}
