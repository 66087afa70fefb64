import { Anchor, Button, Group, Select, Switch, Text, TextInput } from '@mantine/core'
import { IconSearch } from '@tabler/icons-react'
import { useMemo, useState } from 'react'
import { Link, useSearchParams } from 'wouter'
import type { CatalogModel } from '../../../wire/models.ts'
import { mainPrice, typeNames } from '../../catalog.ts'
import { FilterPanel } from '../../components/filters.tsx'
import { Page } from '../../components/page.tsx'
import { Empty } from '../../components/states.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { shortCount } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { Availability, bestStatus } from './availability.tsx'

/** The rows that are shown at first, and more at each click. */
const pageSize = 50

/** The models by developer: those with the most models first. */
export function ModelList({ models }: { models: CatalogModel[] }) {
  const { home } = usePlace()
  const [search, setSearch] = useSearchParams()
  const [pages, setPages] = useState(1)
  const [query, type, live] = [search.get('q') ?? '', search.get('type'), search.get('available') === 'true']
  const developer = search.get('developer')
  const chosen = { query, type, developer, live }
  const filter = (name: string, value: string) =>
    setSearch(
      before => {
        const next = new URLSearchParams(before)
        if (value === '') next.delete(name)
        else next.set(name, value)
        return next
      },
      { replace: true },
    )
  const developers = useMemo(() => developersOf(models), [models])
  const found = useMemo(
    () => matching(models, developers, { query, type, developer, live }),
    [models, developers, query, type, developer, live],
  )
  const shown = found.slice(0, pages * pageSize)
  return (
    <Page
      title="Models"
      description="Available models with their providers and prices. Prices include the service’s margin."
    >
      <Filters models={models} developers={developers} chosen={chosen} onChange={filter} />
      <Text size="xs" c="dimmed" role="status">
        {found.length === models.length ? `${models.length} models` : `${found.length} of ${models.length} models`}
      </Text>
      <DataTable
        label="Models"
        rows={shown}
        columns={columns(home)}
        rowKey={({ id }) => id}
        groupOf={({ owned_by }) => owned_by}
        minWidth={860}
        empty={
          <Empty title="No models found">
            {live
              ? 'Live keys can use models whose provider is configured. Test keys can use all models.'
              : 'Change the filters to see other models.'}
          </Empty>
        }
      />
      {shown.length < found.length && (
        <Group justify="center">
          <Button variant="default" onClick={() => setPages(pages + 1)}>
            Show more
          </Button>
        </Group>
      )}
    </Page>
  )
}

type ModelFilters = { query: string; type: string | null; developer: string | null; live: boolean }

/** `onChange`: takes the parameter of the address and its value; '' = none. */
function Filters({
  models,
  developers,
  chosen: { query, type, developer, live },
  onChange,
}: {
  models: CatalogModel[]
  developers: Map<string, number>
  chosen: ModelFilters
  onChange: (name: string, value: string) => void
}) {
  const types = Object.entries(typeNames).filter(([name]) => models.some(model => model.type === name))
  return (
    <>
      <TextInput
        label="Search"
        placeholder="Name, slug, developer or provider"
        leftSection={<IconSearch size={16} aria-hidden />}
        value={query}
        onChange={event => onChange('q', event.currentTarget.value)}
      />
      <FilterPanel names={['type', 'developer', 'available']}>
        <Group gap="sm" align="flex-end">
          <Select
            label="Type"
            placeholder="All types"
            clearable
            w={180}
            data={types.map(([value, label]) => ({ value, label }))}
            value={type}
            onChange={value => onChange('type', value ?? '')}
          />
          <Select
            label="Developer"
            placeholder="All developers"
            clearable
            searchable
            w={200}
            data={[...developers].map(([value, count]) => ({ value, label: `${value} (${count})` }))}
            value={developer}
            onChange={value => onChange('developer', value ?? '')}
          />
          <Switch
            label="Available to live keys"
            mb={8}
            checked={live}
            onChange={event => onChange('available', event.currentTarget.checked ? 'true' : '')}
          />
        </Group>
      </FilterPanel>
    </>
  )
}

/** How many models each developer has, those with the most first. */
function developersOf(models: CatalogModel[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { owned_by } of models) counts.set(owned_by, (counts.get(owned_by) ?? 0) + 1)
  return new Map([...counts].sort(([a, many], [b, more]) => more - many || a.localeCompare(b)))
}

/** The models that match, by developer and type. */
function matching(
  models: CatalogModel[],
  developers: Map<string, number>,
  { query, type, developer, live }: ModelFilters,
): CatalogModel[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean)
  const found = models.filter(model => {
    if ((type !== null && model.type !== type) || (live && !model.available)) return false
    if (developer !== null && model.owned_by !== developer) return false
    const { id, name, owned_by, providers } = model
    const text = [id, name, owned_by, ...providers.map(provider => provider.name)].join(' ').toLowerCase()
    return words.every(word => text.includes(word))
  })
  const types = Object.keys(typeNames)
  const owners = [...developers.keys()]
  return found.sort(
    (a, b) => owners.indexOf(a.owned_by) - owners.indexOf(b.owned_by) || types.indexOf(a.type) - types.indexOf(b.type),
  )
}

const columns = (home: string): Column<CatalogModel>[] => [
  {
    header: 'Model',
    kind: 'rowHeader',
    card: 'lead',
    cell: ({ id, name }) => (
      <>
        <Anchor component={Link} href={`${home}/models/${id}`} size="sm" fw={500}>
          {name}
        </Anchor>
        <Text size="xs" c="dimmed" ff="monospace" visibleFrom="xs">
          {id}
        </Text>
      </>
    ),
  },
  { header: 'Type', card: 'line', cell: ({ type }) => typeNames[type] ?? type },
  { header: 'Price', card: 'line', cell: model => <Price model={model} /> },
  {
    header: 'Context',
    kind: 'number',
    card: 'labelled',
    cell: ({ context_length: tokens }) => (tokens === null ? '–' : shortCount(tokens)),
  },
  {
    header: 'Input → output',
    cell: ({ input_modalities, output_modalities }) => (
      <Text size="xs">
        {input_modalities.join(', ')} → {output_modalities.join(', ')}
      </Text>
    ),
  },
  {
    header: 'Providers',
    cell: ({ providers }) => <Text size="xs">{providers.map(({ name }) => name).join(', ')}</Text>,
  },
  { header: 'Live keys', card: 'aside', cell: model => <Availability status={bestStatus(model)} /> },
]

function Price({ model }: { model: CatalogModel }) {
  const main = mainPrice(model)
  if (!main) return null
  return (
    <>
      <Text size="sm" className="numeric" style={{ whiteSpace: 'nowrap' }}>
        {main.price}
      </Text>{' '}
      <Text size="xs" c="dimmed">
        per {main.unit}
      </Text>
    </>
  )
}
