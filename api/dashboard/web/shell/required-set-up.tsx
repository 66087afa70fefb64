import { Stack, Text, Title } from '@mantine/core'
import type { Me } from '../../wire/person.ts'
import { useTitle } from '../components/title.ts'
import { SetUp } from '../pages/account/set-up.tsx'

/** In place of every page of an organisation whose members must use two-factor sign-in, for those who do not yet. */
export function RequiredSetUp({ me, name, onDone }: { me: Me; name: string; onDone: () => void }) {
  useTitle('Set up two-factor sign-in')
  return (
    <Stack gap="md">
      <Title order={1}>Set up two-factor sign-in</Title>
      <Text size="sm" maw={560}>
        “{name}” requires it of its members: after your password, signing in asks for a code of an app on your phone.
        Your other organisations and your account are open as before.
      </Text>
      <SetUp me={me} onDone={onDone} />
    </Stack>
  )
}
