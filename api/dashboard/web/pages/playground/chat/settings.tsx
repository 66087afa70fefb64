import { Input, NumberInput, SegmentedControl, Select, Stack, Switch, Textarea } from '@mantine/core'
import type { CatalogModel } from '../../../../wire/models.ts'
import { usePersistedField } from '../persisted-field.ts'
import { chat } from './formats/chat.ts'
import { messages, usualMaxTokens } from './formats/messages.ts'
import { responses } from './formats/responses.ts'

export const formats = { chat, responses, messages }
export type FormatName = keyof typeof formats

export type Settings = {
  format: FormatName
  system: string
  /** '' = the key's setting. */
  mode: string
  temperature: number | string
  maxTokens: number | string
  /** A JSON array, as chat completions take `tools`; '' = none. */
  tools: string
  pictures: boolean
}

const usual: Settings = {
  format: 'chat',
  system: '',
  mode: '',
  temperature: '',
  maxTokens: '',
  tools: '',
  pictures: false,
}

export function useSettings() {
  return usePersistedField<Settings>('chat.settings', usual)
}

/** Parses the tools for the API; null if the text is empty or invalid. */
export function toolsOf({ tools }: Settings): { tools: unknown[] | null; problem: string | null } {
  if (tools.trim() === '') return { tools: [], problem: null }
  try {
    const parsed: unknown = JSON.parse(tools)
    if (Array.isArray(parsed)) return { tools: parsed, problem: null }
    return { tools: null, problem: 'Enter a JSON array of tools.' }
  } catch {
    return { tools: null, problem: 'Invalid JSON.' }
  }
}

const exampleTools = `[
  {
    "type": "function",
    "function": {
      "name": "get_weather",
      "description": "The weather in a city",
      "parameters": {
        "type": "object",
        "properties": { "city": { "type": "string" } },
        "required": ["city"]
      }
    }
  }
]`

const formatOptions = Object.entries(formats).map(([value, { label }]) => ({ value, label }))
const lacking = (name: string) => `This model does not support ${name}.`

/** The settings of every request of the conversation. */
export function SettingsForm({
  settings,
  onChange,
  model,
}: {
  settings: Settings
  onChange: (settings: Settings) => void
  /** Undefined: `auto`. */
  model: CatalogModel | undefined
}) {
  const set = (change: Partial<Settings>) => onChange({ ...settings, ...change })
  const takes = (parameter: string) => !model || model.supported_parameters.includes(parameter)
  return (
    <Stack gap="sm">
      <Choice
        id="api-format"
        label="API format"
        options={formatOptions}
        value={settings.format}
        onChange={format => set({ format: format as FormatName })}
      />
      {!model && (
        <Choice
          id="routing-mode"
          label="Routing mode"
          options={modes}
          value={settings.mode}
          onChange={mode => set({ mode })}
        />
      )}
      <Textarea
        label="System prompt"
        autosize
        minRows={2}
        maxRows={8}
        value={settings.system}
        onChange={event => set({ system: event.currentTarget.value })}
      />
      <NumberInput
        label="Temperature"
        description={takes('temperature') ? '0 to 2. Leave empty for the model’s default.' : lacking('temperature')}
        disabled={!takes('temperature')}
        min={0}
        max={2}
        step={0.1}
        decimalScale={2}
        value={settings.temperature}
        onChange={temperature => set({ temperature })}
      />
      <NumberInput
        label="Max tokens"
        description={maxTokensHelp(settings, model)}
        min={1}
        max={model?.max_output_tokens ?? undefined}
        allowDecimal={false}
        value={settings.maxTokens}
        onChange={maxTokens => set({ maxTokens })}
      />
      {settings.format === 'chat' && model?.output_modalities.includes('image') && (
        <Switch
          label="Request images"
          checked={settings.pictures}
          onChange={event => set({ pictures: event.currentTarget.checked })}
        />
      )}
      <ToolsField settings={settings} onChange={tools => set({ tools })} lacks={!takes('tools')} />
    </Stack>
  )
}

function maxTokensHelp({ format }: Settings, model: CatalogModel | undefined): string {
  const range = model?.max_output_tokens ? `Up to ${model.max_output_tokens}` : 'Per response'
  return format === 'messages' ? `${range}. This format requires it; ${usualMaxTokens} if empty.` : range
}

const modes = [
  { value: '', label: 'Key default' },
  { value: 'cost', label: 'Cost' },
  { value: 'balanced', label: 'Balanced' },
  { value: 'quality', label: 'Quality' },
]

function Choice({
  id,
  label,
  options,
  value,
  onChange,
}: {
  id: string
  label: string
  options: { value: string; label: string }[]
  value: string
  onChange: (value: string) => void
}) {
  return (
    <div>
      <Input.Label labelElement="div" id={id}>
        {label}
      </Input.Label>
      <SegmentedControl fullWidth size="xs" aria-labelledby={id} data={options} value={value} onChange={onChange} />
    </div>
  )
}

function ToolsField({
  settings,
  onChange,
  lacks,
}: {
  settings: Settings
  onChange: (tools: string) => void
  lacks: boolean
}) {
  return (
    <Stack gap={6}>
      <Textarea
        label="Tools (JSON)"
        description={
          lacks ? lacking('tools') : 'As chat completions take them. You enter the results of tool calls yourself.'
        }
        disabled={lacks}
        autosize
        minRows={2}
        maxRows={12}
        spellCheck={false}
        styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)', fontSize: 12 } }}
        value={settings.tools}
        error={toolsOf(settings).problem}
        onChange={event => onChange(event.currentTarget.value)}
      />
      <Select
        aria-label="Tool examples"
        placeholder="Insert an example"
        size="xs"
        disabled={lacks}
        data={[{ value: exampleTools, label: 'get_weather' }]}
        value={null}
        onChange={example => example && onChange(example)}
      />
    </Stack>
  )
}
