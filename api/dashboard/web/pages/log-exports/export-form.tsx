import { Checkbox, PasswordInput, Select, Stack, Switch, Textarea, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { DashboardExport, ExportFields, ExportKind, ExportSecretAnswer } from '../../../wire/log-exports.ts'
import { changedFields } from '../../changed-fields.ts'
import { OpenModal } from '../../components/dialogs.tsx'
import { Form } from '../../components/form.tsx'
import { NumberField } from '../../components/number-field.tsx'
import { useCreateExport, usePatchExport } from './queries.ts'

type Draft = {
  kind: ExportKind
  name: string
  url: string
  bucket: string
  region: string
  prefix: string
  path_style: boolean
  access_key_id: string
  secret_access_key: string
  headers: string
  removes_headers: boolean
  format: string
  streams: string[]
  environment: string
  interval_s: number
}

const kinds = [
  { value: 'https', label: 'HTTPS: signed batches of JSON' },
  { value: 'otlp', label: 'OpenTelemetry collector (OTLP/HTTP)' },
  { value: 's3', label: 'S3-compatible bucket' },
]
const streams = [
  { value: 'requests', label: 'Requests' },
  { value: 'audit', label: 'Audit log' },
  { value: 'content', label: 'Content, where logging is on' },
]
const formats: Record<ExportKind, string[]> = {
  https: ['ndjson', 'json'],
  s3: ['ndjson', 'json'],
  otlp: ['protobuf', 'json'],
}
const environments = [
  { value: '', label: 'Live and test' },
  { value: 'live', label: 'Live only' },
  { value: 'test', label: 'Test only' },
]

function draftOf(one: DashboardExport | null): Draft {
  const kind = one?.kind ?? 'https'
  return {
    kind,
    name: one?.name ?? '',
    url: one?.url ?? '',
    bucket: one?.bucket ?? '',
    region: one?.region ?? '',
    prefix: one?.prefix ?? '',
    path_style: one?.path_style ?? false,
    access_key_id: one?.access_key_id ?? '',
    secret_access_key: '',
    headers: '',
    removes_headers: false,
    format: one?.format ?? 'ndjson',
    streams: one?.streams ?? ['requests'],
    environment: one?.environment ?? '',
    interval_s: one?.interval_s ?? 10,
  }
}

/** The lines `Name: value` of a text. */
function headersOf(text: string): Record<string, string> {
  const lines = text.split('\n').filter(line => line.trim() !== '')
  return Object.fromEntries(
    lines.map(line => {
      const [name = '', ...value] = line.split(':')
      return [name.trim(), value.join(':').trim()]
    }),
  )
}

/** The fields of a draft, in the API's format. */
function fieldsOf(draft: Draft): ExportFields {
  const { kind, name, url, format, streams, environment, interval_s } = draft
  const common = { name: name.trim(), format, streams, environment: environment || null, interval_s }
  if (kind !== 's3') {
    const headers = draft.removes_headers ? {} : headersOf(draft.headers)
    const isGiven = draft.removes_headers || Object.keys(headers).length > 0
    return { ...common, url: url.trim(), ...(isGiven && { headers }) }
  }
  const { bucket, region, prefix, path_style, access_key_id, secret_access_key } = draft
  return {
    ...common,
    url: url.trim() || null,
    bucket: bucket.trim(),
    path_style,
    access_key_id: access_key_id.trim(),
    region: region.trim() || null,
    prefix: prefix.trim(),
    ...(secret_access_key !== '' && { secret_access_key }),
  }
}

/** `one` is the export that is edited; null for a new one. */
type Fields = { draft: Draft; set: (change: Partial<Draft>) => void; one: DashboardExport | null }

function DestinationFields({ draft, set, one }: Fields) {
  if (draft.kind === 's3') return <BucketFields draft={draft} set={set} one={one} />
  return (
    <>
      <TextInput
        label="URL"
        description={draft.kind === 'otlp' ? 'Of the collector, without /v1/traces.' : undefined}
        type="url"
        required
        maxLength={2_048}
        value={draft.url}
        onChange={event => set({ url: event.currentTarget.value })}
      />
      <HeaderFields draft={draft} set={set} one={one} />
    </>
  )
}

function HeaderFields({ draft, set, one }: Fields) {
  const present = one?.headers ?? []
  const kept = one && ` Empty: they stay as they are${present.length > 0 ? ` (${present.join(', ')})` : ''}.`
  return (
    <>
      <Textarea
        label="Headers"
        description={`One per line: “Authorization: Bearer …”. They are stored encrypted, and their values never shown.${kept ?? ''}`}
        autosize
        minRows={2}
        disabled={draft.removes_headers}
        value={draft.headers}
        onChange={event => set({ headers: event.currentTarget.value })}
      />
      {present.length > 0 && (
        <Switch
          label="Remove all headers"
          checked={draft.removes_headers}
          onChange={event => set({ removes_headers: event.currentTarget.checked })}
        />
      )}
    </>
  )
}

function BucketFields({ draft, set, one }: Fields) {
  const text = (field: 'bucket' | 'region' | 'prefix' | 'access_key_id', label: string, required: boolean) => (
    <TextInput
      label={label}
      required={required}
      value={draft[field]}
      onChange={event => set({ [field]: event.currentTarget.value })}
    />
  )
  return (
    <>
      {text('bucket', 'Bucket', true)}
      {text('region', 'Region', false)}
      {text('prefix', 'Folder', false)}
      <TextInput
        label="Endpoint"
        description="Empty for AWS."
        type="url"
        value={draft.url}
        onChange={event => set({ url: event.currentTarget.value })}
      />
      <Switch
        label="Bucket in the path of URLs"
        checked={draft.path_style}
        onChange={event => set({ path_style: event.currentTarget.checked })}
      />
      {text('access_key_id', 'Access key ID', true)}
      <PasswordInput
        label="Secret access key"
        description={one ? 'Empty: it stays as it is.' : undefined}
        required={one === null}
        autoComplete="off"
        value={draft.secret_access_key}
        onChange={event => set({ secret_access_key: event.currentTarget.value })}
      />
    </>
  )
}

function ExportFieldsOf({ draft, set, one }: Fields) {
  return (
    <>
      <TextInput
        label="Name"
        required
        maxLength={100}
        data-autofocus
        value={draft.name}
        onChange={event => set({ name: event.currentTarget.value })}
      />
      {one === null && (
        <Select
          label="Destination"
          data={kinds}
          allowDeselect={false}
          value={draft.kind}
          onChange={value => {
            const kind = value as ExportKind
            set({ kind, format: formats[kind][0]!, interval_s: kind === 's3' ? 300 : 10 })
          }}
        />
      )}
      <DestinationFields draft={draft} set={set} one={one} />
      <Checkbox.Group label="Streams" value={draft.streams} onChange={streams => set({ streams })}>
        <Stack gap="xs" mt="xs">
          {streams.map(({ value, label }) => (
            <Checkbox key={value} value={value} label={label} />
          ))}
        </Stack>
      </Checkbox.Group>
      <Select
        label="Environment"
        data={environments}
        allowDeselect={false}
        value={draft.environment}
        onChange={value => set({ environment: value ?? '' })}
      />
      <Select
        label="Format"
        data={formats[draft.kind]}
        allowDeselect={false}
        value={draft.format}
        onChange={value => set({ format: value ?? draft.format })}
      />
      <NumberField
        label="Longest wait for a batch to fill, in seconds"
        min={1}
        max={3_600}
        allowDecimal={false}
        value={draft.interval_s}
        onChange={interval_s => set({ interval_s })}
      />
    </>
  )
}

/** Creates an export; `onCreated` gets its secret. */
export function CreateExport({
  onCreated,
  onClose,
}: {
  onCreated: (answer: ExportSecretAnswer) => void
  onClose: () => void
}) {
  const [draft, setDraft] = useState(draftOf(null))
  const create = useCreateExport({ kind: draft.kind, ...fieldsOf(draft) }, onCreated)
  return (
    <OpenModal onClose={onClose} title="Add log export" centered>
      <Form mutation={create} submit="Add export" disabled={draft.streams.length === 0}>
        <ExportFieldsOf draft={draft} set={change => setDraft({ ...draft, ...change })} one={null} />
      </Form>
    </OpenModal>
  )
}

/** Changes an export: only what differs is sent. */
export function EditExport({ one, onClose }: { one: DashboardExport; onClose: () => void }) {
  const [begun] = useState(() => draftOf(one))
  const [draft, setDraft] = useState(begun)
  const changes = changedFields(fieldsOf(draft), fieldsOf(begun))
  const save = usePatchExport(one.id, changes, onClose)
  const isSame = Object.keys(changes).length === 0
  return (
    <OpenModal onClose={onClose} title="Edit log export" centered>
      <Form mutation={save} submit="Save" disabled={isSame || draft.streams.length === 0}>
        <ExportFieldsOf draft={draft} set={change => setDraft({ ...draft, ...change })} one={one} />
      </Form>
    </OpenModal>
  )
}
