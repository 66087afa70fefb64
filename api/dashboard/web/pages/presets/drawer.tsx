import { Badge, Button, Group, JsonInput, Stack, Text, Textarea, TextInput } from '@mantine/core'
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
        <Editor key={preset?.version} preset={preset} isReadOnly={!may('manage')} onClose={onClose} />
        {preset && <Versions preset={preset} />}
        {preset && may('manage') && <Deletion name={preset.name} onClose={onClose} />}
      </Stack>
    </OpenDrawer>
  )
}

type EditorProps = { preset: DashboardPreset | null; isReadOnly: boolean; onClose: () => void }

function Editor({ preset, isReadOnly, onClose }: EditorProps) {
  const { model: ownModel = '', system: ownSystem = '', ...others } = preset?.config ?? {}
  const [name, setName] = useState(preset?.name ?? '')
  const [model, setModel] = useState(ownModel)
  const [system, setSystem] = useState(ownSystem)
  const [settings, setSettings] = useState(JSON.stringify(others, null, 2))
  const save = useSavePreset(
    name,
    () => ({
      ...parseSettings(settings),
      ...(model.trim() !== '' && { model: model.trim() }),
      ...(system !== '' && { system }),
    }),
    () => (preset ? undefined : onClose()),
  )
  return (
    <Form
      mutation={save}
      submit={preset ? 'Save as new version' : 'Create preset'}
      disabled={isReadOnly || name === ''}
    >
      {!preset && (
        <TextInput
          label="Name"
          description="Lower-case letters, digits, - and _. Requests name it as @preset/name."
          required
          maxLength={64}
          value={name}
          onChange={event => setName(event.currentTarget.value)}
          data-autofocus
        />
      )}
      <TextInput
        label="Model"
        description="Empty: each request names one, as in gpt-5@preset/name."
        maxLength={100}
        readOnly={isReadOnly}
        value={model}
        onChange={event => setModel(event.currentTarget.value)}
      />
      <Textarea
        label="System prompt"
        description="Of requests that have none."
        autosize
        minRows={4}
        maxRows={16}
        readOnly={isReadOnly}
        value={system}
        onChange={event => setSystem(event.currentTarget.value)}
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
        value={settings}
        onChange={setSettings}
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
