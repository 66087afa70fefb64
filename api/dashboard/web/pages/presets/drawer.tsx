import { Alert, Badge, Button, Group, JsonInput, Stack, Text, Textarea, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { DashboardPreset } from '../../../wire/presets.ts'
import { Confirm } from '../../components/confirm.tsx'
import { OpenDrawer } from '../../components/dialogs.tsx'
import { Section } from '../../components/facts.tsx'
import { Form } from '../../components/form.tsx'
import { Failure, Show } from '../../components/states.tsx'
import { moment } from '../../format.ts'
import { usePlace } from '../../session.tsx'
import { useDeletePreset, usePresets, usePresetVersion, usePresetVersions, useSavePreset } from './queries.ts'

/** Creates or changes a preset, and shows its versions. */
export function PresetDrawer({ preset: opened, onClose }: { preset: DashboardPreset | null; onClose: () => void }) {
  const { may } = usePlace()
  const presets = usePresets()
  const preset = (opened && presets.data?.find(({ name }) => name === opened.name)) ?? opened
  return (
    <OpenDrawer
      onClose={onClose}
      title={preset ? `@preset/${preset.name}` : 'Create preset'}
      position="right"
      size="lg"
    >
      <Stack gap="xl">
        <Editor preset={preset} isReadOnly={!may('manage')} onClose={onClose} />
        {preset && <Versions preset={preset} />}
        {preset && may('manage') && <Deletion name={preset.name} onClose={onClose} />}
      </Stack>
    </OpenDrawer>
  )
}

type EditorProps = { preset: DashboardPreset | null; isReadOnly: boolean; onClose: () => void }

/** A preset as the form edits it. `settings`: the rest of its configuration, as JSON. */
type Draft = { name: string; model: string; system: string; settings: string }

function draftOf(preset: DashboardPreset | null): Draft {
  const { model = '', system = '', ...others } = preset?.config ?? {}
  return { name: preset?.name ?? '', model, system, settings: JSON.stringify(others, null, 2) }
}

function configOf({ model, system, settings }: Draft): object {
  return {
    ...parseSettings(settings),
    ...(model.trim() !== '' && { model: model.trim() }),
    ...(system !== '' && { system }),
  }
}

const isSame = (one: Draft, other: Draft) => JSON.stringify(one) === JSON.stringify(other)

function Editor({ preset, isReadOnly, onClose }: EditorProps) {
  /** The preset that the form began with. */
  const [begun, setBegun] = useState(preset)
  const [draft, setDraft] = useState(() => draftOf(preset))
  const change = (changes: Partial<Draft>) => setDraft({ ...draft, ...changes })
  const begin = (next: DashboardPreset) => {
    setBegun(next)
    setDraft(draftOf(next))
  }
  const presets = usePresets()
  const isTaken = !preset && presets.data?.some(({ name }) => name === draft.name)
  // Another version is in use by now. Where something is typed, it stays.
  const isOther = preset !== null && begun !== null && preset.updated_at > begun.updated_at
  const isChanged = !isSame(draft, draftOf(begun))
  if (isOther && !isChanged) begin(preset)
  const save = useSavePreset(
    draft.name,
    () => configOf(draft),
    ({ data }) => (preset ? begin(data) : onClose()),
  )
  return (
    <Form
      mutation={save}
      submit={preset ? 'Save as new version' : 'Create preset'}
      disabled={isReadOnly || draft.name === '' || isTaken}
    >
      {isOther && isChanged && (
        <Alert color="yellow" variant="light" title={`Version ${preset.version} is in use since you opened this form`}>
          What you entered is still here, and saving it makes a version that replaces the other.{' '}
          <Button size="compact-xs" variant="default" onClick={() => begin(preset)}>
            Show version {preset.version} instead
          </Button>
        </Alert>
      )}
      {!preset && (
        <TextInput
          label="Name"
          description="Lower-case letters, digits, - and _. Requests name it as @preset/name."
          required
          maxLength={64}
          error={isTaken && 'There is a preset of this name. Open it to save a new version.'}
          value={draft.name}
          onChange={event => change({ name: event.currentTarget.value })}
          data-autofocus
        />
      )}
      <TextInput
        label="Model"
        description="Empty: each request names one, as in gpt-5@preset/name."
        maxLength={100}
        readOnly={isReadOnly}
        value={draft.model}
        onChange={event => change({ model: event.currentTarget.value })}
      />
      <Textarea
        label="System prompt"
        description="Of requests that have none."
        autosize
        minRows={4}
        maxRows={16}
        readOnly={isReadOnly}
        value={draft.system}
        onChange={event => change({ system: event.currentTarget.value })}
      />
      <JsonInput
        label="Settings"
        description="As members of a chat completion: temperature, top_p, max_tokens, stop, reasoning_effort, provider, models …"
        autosize
        minRows={4}
        maxRows={16}
        formatOnBlur
        validationError="This is not JSON."
        readOnly={isReadOnly}
        value={draft.settings}
        onChange={settings => change({ settings })}
      />
    </Form>
  )
}

function parseSettings(text: string): object {
  const value: unknown = JSON.parse(text.trim() === '' ? '{}' : text)
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error('Settings are a JSON object.')
  return value
}

function Versions({ preset: { name } }: { preset: DashboardPreset }) {
  const { may } = usePlace()
  const versions = usePresetVersions(name)
  const use = usePresetVersion(name)
  return (
    <Section title="Versions">
      <Show query={versions}>
        {data => (
          <Stack gap="xs">
            {data.map(({ version, is_current: isCurrent, created_by: by, created_at: at }) => (
              <Group key={version} gap="sm">
                <Text size="sm" miw={90}>
                  Version {version}
                </Text>
                <Text size="sm" c="dimmed">
                  {moment(at)}, {by}
                </Text>
                {isCurrent ? (
                  <Badge color="green">in use</Badge>
                ) : (
                  may('manage') && (
                    <Button size="compact-sm" variant="default" onClick={() => use.mutate(version)}>
                      Use version {version}
                    </Button>
                  )
                )}
              </Group>
            ))}
            {use.error && <Failure error={use.error} />}
            <Text size="xs" c="dimmed">
              @preset/{name}@1 names a version, which never changes.
            </Text>
          </Stack>
        )}
      </Show>
    </Section>
  )
}

function Deletion({ name, onClose }: { name: string; onClose: () => void }) {
  const [isAsking, setAsking] = useState(false)
  const remove = useDeletePreset(name, onClose)
  return (
    <>
      <Button color="red" variant="light" w="fit-content" onClick={() => setAsking(true)}>
        Delete preset
      </Button>
      {isAsking && (
        <Confirm
          title={`Delete @preset/${name}?`}
          action="Delete preset"
          pending={remove.isPending}
          error={remove.error}
          onConfirm={() => remove.mutate()}
          onClose={() => setAsking(false)}
        >
          Requests that name it are refused from then on. Its versions are deleted, too.
        </Confirm>
      )}
    </>
  )
}
