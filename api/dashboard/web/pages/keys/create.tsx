import { Button, Group, Radio, Stack } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import type { Environment, KeySecretAnswer } from '../../../wire/keys.ts'
import { OpenDrawer } from '../../components/dialogs.tsx'
import { Failure } from '../../components/states.tsx'
import { usePlace } from '../../session.tsx'
import { VerifyNotice } from '../../shell/verify-notice.tsx'
import { emptyDraft, fieldsOf } from './draft.ts'
import { PolicyFields } from './policy-fields.tsx'
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
  const [environment, setEnvironment] = useState<Environment>('test')
  const [draft, setDraft] = useState(emptyDraft)
  const create = useCreate(onCreated)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (!create.isPending) create.mutate({ ...fieldsOf(draft), environment }, { onSuccess: onClose })
  }
  return (
    <OpenDrawer onClose={onClose} title="Create an API key">
      <form onSubmit={submit}>
        <Stack>
          {!me.email_verified && <VerifyNotice me={me} />}
          <Radio.Group label="Environment" value={environment} onChange={value => setEnvironment(value as Environment)}>
            <Stack gap="xs" mt="xs">
              <Radio value="test" label="Test" description="The sandbox echoes requests. Nothing is charged." />
              <Radio
                value="live"
                label="Live"
                description="Requests reach real providers and are paid from the organisation’s credits."
              />
            </Stack>
          </Radio.Group>
          <PolicyFields draft={draft} onChange={setDraft} />
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
