import { Anchor, Badge, Group, Select, Stack, Text } from '@mantine/core'
import { Link, useSearchParams } from 'wouter'
import type { DashboardKey } from '../../../wire/keys.ts'
import type { CatalogModel } from '../../../wire/models.ts'
import { leadOf, priceSummary } from '../../catalog.ts'
import { usePlace } from '../../session.tsx'
import { useBench } from './bench.ts'
import { useKept } from './kept.ts'

const mostShown = 200

/** Whether a key may be used with a model, and somebody would serve it. */
function isOffered({ environment, model_allowlist }: DashboardKey, { id, owned_by, available }: CatalogModel): boolean {
  if (environment === 'live' && !available) return false
  return model_allowlist === null || model_allowlist.some(slug => slug === id || slug === `${owned_by}/${id}`)
}

export type Choice = {
  /** Those that the key can use here. */
  models: CatalogModel[]
  /** Undefined where nothing is chosen, or `auto` is. */
  model: CatalogModel | undefined
  /** The slug to send; '' where there is nothing to choose from. */
  slug: string
  choose: (slug: string) => void
}

/** The model of a tab: the one in the address, else the last one chosen in the tab, else `usual`, else the first. */
export function useChoice(tab: string, serves: (model: CatalogModel) => boolean, usual = ''): Choice {
  const { apiKey, models: all } = useBench()
  const [search, setSearch] = useSearchParams()
  const [kept, keep] = useKept(`${tab}.model`, usual)
  const models = all.filter(model => serves(model) && isOffered(apiKey, model))
  const wanted = search.get('model') ?? kept
  const model = models.find(({ id }) => id === wanted)
  const isAuto = usual === 'auto' && wanted === 'auto'
  const chosen = model ?? (isAuto || usual === 'auto' ? undefined : models[0])
  return {
    models,
    model: chosen,
    slug: chosen?.id ?? usual,
    choose: slug => {
      keep(slug)
      setSearch({ model: slug }, { replace: true })
    },
  }
}

/** Chooses a model by a search in names and slugs; says what it costs under the key. */
export function ModelPicker({ choice, auto = false }: { choice: Choice; auto?: boolean }) {
  const { apiKey } = useBench()
  const { home } = usePlace()
  const { models, model, slug, choose } = choice
  const byId = new Map(models.map(row => [row.id, row]))
  const autoItem = { value: 'auto', label: 'auto: the gateway chooses' }
  return (
    <Stack gap={4}>
      <Select
        label="Model"
        searchable
        allowDeselect={false}
        limit={mostShown}
        nothingFoundMessage="No such model for this key"
        data={[...(auto ? [autoItem] : []), ...models.map(({ id, name }) => ({ value: id, label: `${name} (${id})` }))]}
        value={slug || null}
        onChange={value => value && choose(value)}
        renderOption={({ option }) => <Option label={option.label} model={byId.get(option.value)} />}
        error={models.length === 0 && !auto ? 'No model of this kind can be used with this key.' : undefined}
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
      {model && leadOf(model)?.status === 'resting' && (
        <Badge color="yellow">Its provider fails at the moment; another one is tried</Badge>
      )}
    </Stack>
  )
}

function Option({ label, model }: { label: string; model: CatalogModel | undefined }) {
  return (
    <Stack gap={0}>
      <Text size="sm">{label}</Text>
      <Text size="xs" c="dimmed">
        {model ? priceSummary(model) : 'Each request goes to the model that fits it'}
      </Text>
    </Stack>
  )
}
