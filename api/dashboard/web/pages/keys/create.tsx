import { Button, Group, Radio, Stack } from '@mantine/core'
import { IconChevronDown, IconChevronRight } from '@tabler/icons-react'
import { type FormEvent, useState } from 'react'
import type { Environment, KeySecretAnswer } from '../../../wire/keys.ts'
import { OpenDrawer } from '../../components/dialogs.tsx'
import { Failure } from '../../components/states.tsx'
import { usePlace } from '../../session.tsx'
import { VerifyNotice } from '../../shell/verify-notice.tsx'
import { emptyDraft, fieldsOf, isComplete } from './draft.ts'
import { CapField, MissingChoices, MoreFields, NameField } from './policy-fields.tsx'
import { useCreate } from './queries.ts'

/** Creates an API key; `onCreated` gets its secret. */
export function CreateDrawer({
  onCreated,
  onClose,
}: {
  onCreated: (answer: KeySecretAnswer) => void
  onClose: () => void
}) {
  const { me } = usePlace()
  const [environment, setEnvironment] = useState<Environment | null>(null)
  const [draft, setDraft] = useState(emptyDraft)
  const [hasMore, setMore] = useState(false)
  const [isTried, setTried] = useState(false)
  const create = useCreate(onCreated)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    setTried(true)
    // The fields that may lack something are among the folded ones.
    if (!isComplete(draft)) setMore(true)
    else if (environment !== null && !create.isPending)
      create.mutate({ ...fieldsOf(draft), environment }, { onSuccess: onClose })
  }
  return (
    <OpenDrawer onClose={onClose} title="Create an API key">
      <form onSubmit={submit}>
        <Stack>
          {!me.email_verified && <VerifyNotice me={me} />}
          <NameField draft={draft} onChange={setDraft} hasFocus />
          <Radio.Group
            label="Environment"
            name="environment"
            value={environment}
            onChange={value => setEnvironment(value as Environment)}
          >
            <Stack gap="xs" mt="xs">
              {/* Neither is chosen beforehand: the secret of the wrong one is found out only in production. */}
              <Radio
                required
                value="test"
                label="Test"
                description="The sandbox echoes requests. Nothing is charged."
              />
              <Radio
                required
                value="live"
                label="Live"
                description="Requests reach real providers and are paid from the organisation’s credits."
              />
            </Stack>
          </Radio.Group>
          <CapField draft={draft} onChange={setDraft} />
          <Button
            variant="subtle"
            size="compact-sm"
            style={{ alignSelf: 'flex-start' }}
            aria-expanded={hasMore}
            aria-controls="more-limits"
            leftSection={
              hasMore ? <IconChevronDown size={16} aria-hidden /> : <IconChevronRight size={16} aria-hidden />
            }
            onClick={() => setMore(!hasMore)}
          >
            More limits
          </Button>
          {/* It opens for an invalid value, which the browser could not show otherwise. */}
          <div id="more-limits" hidden={!hasMore} onInvalidCapture={() => setMore(true)}>
            <MoreFields draft={draft} onChange={setDraft} />
          </div>
          {isTried && <MissingChoices draft={draft} />}
          {create.error && <Failure error={create.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" loading={create.isPending}>
              Create key
            </Button>
          </Group>
        </Stack>
      </form>
    </OpenDrawer>
  )
}
