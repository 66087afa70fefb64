import {
  Button,
  Checkbox,
  Group,
  MultiSelect,
  NumberInput,
  PasswordInput,
  Select,
  Stack,
  Text,
  TextInput,
} from '@mantine/core'
import { useState } from 'react'
import type { OperatorServer } from '../../../wire/operator-catalog.ts'
import { changedFields } from '../../changed-fields.ts'
import { OpenDrawer } from '../../components/dialogs.tsx'
import { Form } from '../../components/form.tsx'
import { Failure } from '../../components/states.tsx'
import { type ServerSettings, useSaveServer, useTestServer } from './catalog-queries.ts'
import { draftOf, PriceField } from './price-field.tsx'

type Model = OperatorServer['models'][number]

const newModel = (server: string, upstream: string): Model => ({
  id: `${server}/${upstream.replaceAll(/[^a-z0-9._:/@-]/gi, '-')}`.slice(0, 100),
  type: 'chat',
  upstream_model: upstream,
  context_length: null,
  max_output_tokens: null,
  input_modalities: ['text'],
  supported_parameters: [],
  quality: null,
  price: { unit: 'token', input: '0', output: '0' },
})

function settingsOf(server: OperatorServer | null): ServerSettings {
  const { base_url = '', models = [], data_collection = null, zdr = false } = server ?? {}
  return { base_url, models, data_collection, zdr }
}

/** Adds or edits a server: its address and key, a test of the connection, and its models. */
export function ServerDrawer({ server, onClose }: { server: OperatorServer | null; onClose: () => void }) {
  const [begun] = useState(() => settingsOf(server))
  const [name, setName] = useState(server?.name ?? '')
  const [baseUrl, setBaseUrl] = useState(begun.base_url)
  const [apiKey, setApiKey] = useState('')
  const [models, setModels] = useState(begun.models)
  const [collects, setCollects] = useState(begun.data_collection)
  const [zdr, setZdr] = useState(begun.zdr)
  const key = apiKey === '' ? {} : { api_key: apiKey }
  const settings = { base_url: baseUrl, models, data_collection: collects, zdr }
  const changeOf = (now: OperatorServer | undefined) =>
    // Replaces the server as it is now, with what was changed here: a colleague may have changed the rest.
    now && server ? { ...settingsOf(now), ...changedFields<ServerSettings>(settings, begun) } : settings
  const save = useSaveServer(name, changeOf, key, onClose)
  const test = useTestServer({ base_url: baseUrl, ...key, ...(server && { name: server.name }) })
  const select = (upstreams: string[]) =>
    setModels(
      upstreams.map(
        upstream => models.find(({ upstream_model }) => upstream_model === upstream) ?? newModel(name, upstream),
      ),
    )
  const listed = new Set([...models.map(({ upstream_model }) => upstream_model), ...(test.data?.models ?? [])])
  return (
    <OpenDrawer onClose={onClose} title={server ? server.name : 'Add server'} position="right" size="lg">
      <Form mutation={save} submit={server ? 'Save server' : 'Add server'} disabled={name === '' || baseUrl === ''}>
        {!server && (
          <TextInput
            label="Name"
            description="Lower-case letters, digits and underscores. It cannot be changed later."
            required
            maxLength={60}
            value={name}
            onChange={event => setName(event.currentTarget.value)}
            data-autofocus
          />
        )}
        <TextInput
          label="Base URL"
          description="With the path, such as http://10.0.0.5:8000/v1. Private addresses are allowed."
          required
          type="url"
          value={baseUrl}
          onChange={event => setBaseUrl(event.currentTarget.value)}
        />
        <PasswordInput
          label="API key"
          description={
            server?.api_key_last4 == null
              ? 'Empty if the server needs none. It is not shown again.'
              : `Empty to keep the key that ends in ${server.api_key_last4}.`
          }
          autoComplete="off"
          value={apiKey}
          onChange={event => setApiKey(event.currentTarget.value)}
        />
        <DataCollection collects={collects} onChange={setCollects} />
        <Checkbox
          label="Zero data retention: it keeps nothing of a request"
          checked={zdr}
          onChange={event => setZdr(event.currentTarget.checked)}
        />
        <ConnectionTest test={test} disabled={baseUrl === ''} />
        {listed.size > 0 && (
          <MultiSelect
            label="Models"
            description="The models to offer."
            searchable
            data={[...listed]}
            value={models.map(({ upstream_model }) => upstream_model)}
            onChange={select}
            limit={200}
          />
        )}
        {models.map((model, index) => (
          <ModelFields key={model.upstream_model} model={model} onChange={one => setModels(models.with(index, one))} />
        ))}
      </Form>
    </OpenDrawer>
  )
}

/** `collects`: null = not known. */
function DataCollection({
  collects,
  onChange,
}: {
  collects: boolean | null
  onChange: (collects: boolean | null) => void
}) {
  return (
    <Select
      label="Data collection"
      description="Requests that deny it go only to servers that do not collect."
      placeholder="not known"
      clearable
      data={[
        { value: 'deny', label: 'Does not keep requests for other purposes' },
        { value: 'allow', label: 'May keep or train on requests' },
      ]}
      value={collects === null ? null : collects ? 'allow' : 'deny'}
      onChange={value => onChange(value === null ? null : value === 'allow')}
    />
  )
}

function ConnectionTest({ test, disabled }: { test: ReturnType<typeof useTestServer>; disabled: boolean }) {
  return (
    <>
      <Group gap="sm">
        <Button variant="default" loading={test.isPending} disabled={disabled} onClick={() => test.mutate()}>
          Test connection
        </Button>
        {test.data && (
          <Text size="sm" c="green.9" role="status">
            Connected: {test.data.models.length} models
          </Text>
        )}
      </Group>
      {test.error && <Failure error={test.error} />}
    </>
  )
}

const quantizations: NonNullable<Model['quantization']>[] = [
  ...(['int4', 'int8', 'fp4', 'mxfp4', 'nvfp4', 'fp6', 'fp8', 'mxfp8', 'fp16', 'bf16', 'fp32'] as const),
]
const parameters = ['tools', 'structured_outputs', 'response_format', 'logprobs']

function ModelFields({ model, onChange }: { model: Model; onChange: (model: Model) => void }) {
  const set = (fields: Partial<Model>) => onChange({ ...model, ...fields })
  const numberOf = (value: number | string) => (value === '' ? null : Number(value))
  return (
    <Stack gap="xs" component="fieldset" m={0} style={{ borderRadius: 'var(--mantine-radius-sm)' }}>
      <Text component="legend" size="sm" fw={600} px={4}>
        {model.upstream_model}
      </Text>
      <Group grow align="flex-start">
        <TextInput
          label="Name in requests"
          required
          maxLength={100}
          value={model.id}
          onChange={event => set({ id: event.currentTarget.value })}
        />
        <Select
          label="Type"
          allowDeselect={false}
          data={['chat', 'embeddings']}
          value={model.type}
          onChange={value => set({ type: value === 'embeddings' ? 'embeddings' : 'chat' })}
        />
      </Group>
      <Group grow align="flex-start">
        <NumberInput
          label="Context (tokens)"
          min={1}
          allowDecimal={false}
          thousandSeparator=","
          value={model.context_length ?? ''}
          onChange={value => set({ context_length: numberOf(value) })}
        />
        <NumberInput
          label="Maximum output (tokens)"
          min={1}
          allowDecimal={false}
          thousandSeparator=","
          value={model.max_output_tokens ?? ''}
          onChange={value => set({ max_output_tokens: numberOf(value) })}
        />
        <NumberInput
          label="Quality (0–100)"
          placeholder="not for auto"
          min={0}
          max={100}
          value={model.quality ?? ''}
          onChange={value => set({ quality: numberOf(value) })}
        />
      </Group>
      <Select
        label="Quantization"
        placeholder="not known"
        clearable
        data={quantizations}
        value={model.quantization ?? null}
        onChange={value => {
          const { quantization: _former, ...rest } = model
          const quantization = quantizations.find(one => one === value)
          onChange({ ...rest, ...(quantization && { quantization }) })
        }}
      />
      <MultiSelect
        label="Supported parameters"
        data={parameters}
        value={model.supported_parameters}
        onChange={supported_parameters => set({ supported_parameters })}
      />
      <PriceField draft={draftOf(model.price)} onChange={({ price }) => set({ price })} />
    </Stack>
  )
}
