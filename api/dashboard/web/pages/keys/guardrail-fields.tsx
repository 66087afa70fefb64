import { Fieldset, Select, Stack, TextInput } from '@mantine/core'
import type { DashboardKey } from '../../../wire/keys.ts'
import { NumberField } from '../../components/number-field.tsx'

type Guardrails = NonNullable<DashboardKey['guardrails']>
type Detector = Guardrails['detectors'][number]
type Guard = NonNullable<Guardrails['webhook']>

const types: { type: Detector['type']; label: string }[] = [
  { type: 'email', label: 'Email addresses' },
  { type: 'phone', label: 'Phone numbers' },
  { type: 'card', label: 'Payment cards' },
  { type: 'iban', label: 'IBANs' },
  { type: 'secret', label: 'API keys and other secrets' },
]
const sides = [
  { value: 'input', label: 'Requests' },
  { value: 'output', label: 'Answers' },
  { value: 'both', label: 'Requests and answers' },
]
const off = 'off'
const several = 'several'
const choices = [
  { value: off, label: 'Not looked for' },
  { value: 'mask input', label: 'Mask in requests, restore in answers' },
  { value: 'mask output', label: 'Mask in answers' },
  { value: 'mask both', label: 'Mask in requests and answers' },
  { value: 'block input', label: 'Refuse requests' },
  { value: 'block output', label: 'Refuse answers' },
  { value: 'block both', label: 'Refuse requests and answers' },
]
const none: Guardrails = { detectors: [], webhook: null, other_kinds: 'refuse' }
const newGuard: Guard = { url: '', on: 'both', timeout_ms: 1_000, on_failure: 'fail_closed' }

type Props = { guardrails: Guardrails | null; onChange(guardrails: Guardrails | null): void }

/** What the texts of a key’s requests and their answers are checked for. */
export function GuardrailFields({ guardrails, onChange }: Props) {
  const { detectors, webhook, other_kinds } = guardrails ?? none
  const change = (changed: Partial<Guardrails>) => {
    const next = { ...(guardrails ?? none), ...changed }
    onChange(next.detectors.length === 0 && next.webhook === null ? null : next)
  }
  const changeGuard = (changed: Partial<Guard>) => change({ webhook: { ...(webhook ?? newGuard), ...changed } })
  return (
    <Fieldset legend="Guardrails">
      <Stack gap="sm">
        {types.map(({ type, label }) => {
          const own = detectors.filter(detector => detector.type === type)
          return (
            <Select
              key={type}
              label={label}
              allowDeselect={false}
              data={
                own.length > 1 ? [...choices, { value: several, label: 'Set by the API', disabled: true }] : choices
              }
              value={own.length > 1 ? several : own[0] ? `${own[0].action} ${own[0].on}` : off}
              onChange={value => change({ detectors: withDetector(detectors, type, value) })}
            />
          )
        })}
        <TextInput
          label="Guard webhook"
          description="A signed request asks it about the texts. Leave empty for none."
          placeholder="https://"
          maxLength={2_048}
          value={webhook?.url ?? ''}
          onChange={event => {
            const url = event.currentTarget.value
            if (url === '') change({ webhook: null })
            else changeGuard({ url })
          }}
        />
        {webhook && <GuardFields webhook={webhook} onChange={changeGuard} />}
        {guardrails && (
          <Select
            label="Images, audio, realtime and other work whose texts are not checked"
            allowDeselect={false}
            data={[
              { value: 'refuse', label: 'Refused' },
              { value: 'allow', label: 'Allowed' },
            ]}
            value={other_kinds}
            onChange={value => change({ other_kinds: value as Guardrails['other_kinds'] })}
          />
        )}
      </Stack>
    </Fieldset>
  )
}

function GuardFields({ webhook, onChange }: { webhook: Guard; onChange(changed: Partial<Guard>): void }) {
  return (
    <>
      <Select
        label="The guard is asked about"
        allowDeselect={false}
        data={sides}
        value={webhook.on}
        onChange={value => onChange({ on: value as Guard['on'] })}
      />
      <NumberField
        label="Time for an answer of the guard (milliseconds)"
        min={50}
        max={10_000}
        allowDecimal={false}
        value={webhook.timeout_ms}
        onChange={timeout_ms => onChange({ timeout_ms })}
      />
      <Select
        label="Without an answer of the guard"
        allowDeselect={false}
        data={[
          { value: 'fail_closed', label: 'The request is refused' },
          { value: 'fail_open', label: 'The request continues' },
        ]}
        value={webhook.on_failure}
        onChange={value => onChange({ on_failure: value as Guard['on_failure'] })}
      />
    </>
  )
}

function withDetector(detectors: Detector[], type: Detector['type'], choice: string | null): Detector[] {
  const others = detectors.filter(detector => detector.type !== type)
  if (choice === null || choice === off) return others
  const [action, on] = choice.split(' ')
  return [...others, { type, action, on } as Detector]
}

/** Guardrails in words, for the facts of a key. */
export function guardrailWords({ detectors, webhook, other_kinds }: Guardrails): string {
  const words = detectors.map(({ type, action, on }) => `${action} ${type} (${on})`)
  if (webhook) words.push(`guard ${webhook.url} (${webhook.on}, ${webhook.on_failure})`)
  if (other_kinds === 'allow') words.push('other work allowed')
  return words.join(', ')
}
