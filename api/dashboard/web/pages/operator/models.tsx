import { Alert, Badge, Button, Group, Select, Stack, Switch, Text, VisuallyHidden } from '@mantine/core'
import { useState } from 'react'
import type { OperatorModel, OperatorModels } from '../../../wire/operator-catalog.ts'
import { typeNames } from '../../catalog.ts'
import { Confirm } from '../../components/confirm.tsx'
import { TextFilter, useFilter } from '../../components/filters.tsx'
import { Empty, Show } from '../../components/states.tsx'
import { type Column, DataTable } from '../../components/table.tsx'
import { count } from '../../format.ts'
import { useOperatorModels, usePatchModel } from './catalog-queries.ts'
import { ModelDrawer, offerText } from './model-drawer.tsx'

const states = [
  { value: '', label: 'All models' },
  { value: 'enabled', label: 'Enabled' },
  { value: 'disabled', label: 'Disabled' },
  { value: 'changed', label: 'Changed here' },
]

const pageSize = 50

const isChanged = ({ state_changed, aliases, shared_aliases, server, offers }: OperatorModel) =>
  state_changed ||
  aliases.length > 0 ||
  shared_aliases.length > 0 ||
  server !== null ||
  offers.some(({ file_price }) => file_price !== null)

/** Whether the filters show a model. */
function matches(model: OperatorModel, search: string, state: string): boolean {
  const text = [
    model.id,
    model.name,
    ...model.aliases,
    ...model.shared_aliases.map(({ name }) => name),
    ...model.offers.map(({ provider }) => provider),
  ].join(' ')
  if (!text.toLowerCase().includes(search.toLowerCase())) return false
  if (state === 'changed') return isChanged(model)
  return state === '' || model.disabled === (state === 'disabled')
}

/** The models of the catalog, with what was changed at run time. */
export function Models() {
  const models = useOperatorModels()
  return <Show query={models}>{data => <List models={data} />}</Show>
}

function List({ models: { data, faults } }: { models: OperatorModels }) {
  const [search] = useFilter('search')
  const [state, setState] = useFilter('state')
  const [opened, setOpened] = useState<string | null>(null)
  const [pages, setPages] = useState(1)
  const found = data.filter(model => matches(model, search, state))
  const shown = found.slice(0, pages * pageSize)
  const open = data.find(({ id }) => id === opened)
  return (
    <Stack>
      {faults.map(({ kind, name, message }) => (
        <Alert key={`${kind} ${name}`} color="yellow" variant="light" title={`The ${kind} “${name}” has no effect`}>
          {message}
        </Alert>
      ))}
      <Group align="flex-end">
        <TextFilter name="search" label="Search" placeholder="Model, alias or provider" w={{ base: '100%', xs: 300 }} />
        <Select
          label="State"
          w={{ base: '100%', xs: 180 }}
          allowDeselect={false}
          data={states}
          value={state}
          onChange={value => setState(value ?? '')}
        />
        <Text size="sm" c="dimmed" pb={8}>
          {count(found.length)} models
        </Text>
      </Group>
      <DataTable
        label="Models"
        rows={shown}
        columns={columns(setOpened)}
        rowKey={({ id }) => id}
        minWidth={760}
        empty={<Empty title="No models match">Change the search or the state.</Empty>}
      />
      {shown.length < found.length && (
        <Group justify="center">
          <Button variant="default" onClick={() => setPages(pages + 1)}>
            Show more
          </Button>
        </Group>
      )}
      {open && <ModelDrawer model={open} onClose={() => setOpened(null)} />}
    </Stack>
  )
}

const columns = (onOpen: (id: string) => void): Column<OperatorModel>[] => [
  {
    header: 'Model',
    card: 'lead',
    kind: 'rowHeader',
    maxWidth: 280,
    cell: model => (
      <>
        <Group gap={6}>
          <Text size="sm" fw={500}>
            {model.id}
          </Text>
          {isChanged(model) && (
            <Badge size="sm" color="blue">
              {model.server === null ? 'changed' : 'added'}
            </Badge>
          )}
        </Group>
        {model.aliases.length > 0 && (
          <Text size="xs" c="dimmed">
            also {model.aliases.join(', ')}
          </Text>
        )}
        {model.shared_aliases.length > 0 && (
          <Text size="xs" c="dimmed">
            shares {model.shared_aliases.map(({ name }) => name).join(', ')}
          </Text>
        )}
      </>
    ),
  },
  { header: 'Type', card: 'line', cell: ({ type }) => typeNames[type] ?? type },
  {
    header: 'Price (USD, without margin)',
    card: 'line',
    maxWidth: 320,
    cell: ({ offers }) =>
      offers.map(({ provider, price, configured, file_price }) => (
        <Text key={provider} size="sm" c={configured ? undefined : 'dimmed'}>
          {provider}: {offerText(price)}
          {file_price !== null && (
            <Text span size="xs" c="dimmed" td="line-through" ml={6}>
              {offerText(file_price)}
            </Text>
          )}
        </Text>
      )),
  },
  { header: 'Enabled', card: 'aside', cell: model => <State model={model} /> },
  {
    header: 'Actions',
    card: 'line',
    kind: 'actions',
    cell: ({ id }) => (
      <Button size="compact-sm" variant="default" onClick={() => onOpen(id)}>
        Edit<VisuallyHidden> {id}</VisuallyHidden>
      </Button>
    ),
  },
]

/** A switch that asks first: it takes effect for every organisation at once. */
function State({ model }: { model: OperatorModel }) {
  const { id, disabled, aliases, offers } = model
  const [isAsked, setAsked] = useState(false)
  const patch = usePatchModel(id)
  const action = disabled ? 'Enable model' : 'Disable model'
  const providers = offers.filter(({ configured }) => configured).map(({ provider }) => provider)
  return (
    <>
      <Switch aria-label={`${id} is enabled`} checked={!disabled} onChange={() => setAsked(true)} />
      {isAsked && (
        <Confirm
          title={`${action}: ${id}`}
          action={action}
          danger={!disabled}
          pending={patch.isPending}
          error={patch.error}
          onConfirm={() => patch.mutate({ disabled: !disabled }, { onSuccess: () => setAsked(false) })}
          onClose={() => setAsked(false)}
        >
          {disabled
            ? `All organisations can use it again${providers.length > 0 ? ` at ${providers.join(', ')}` : ', once one of its providers is configured'}.`
            : `Requests that name it${aliases.length > 0 ? ` or ${aliases.join(', ')}` : ''} are refused from now on, for every organisation, and “auto” chooses others. You can enable it again.`}
        </Confirm>
      )}
    </>
  )
}
