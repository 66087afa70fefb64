import { Stack, Text, Title } from '@mantine/core'
import type { Me } from '../../wire/person.ts'
import { useTitle } from '../components/title.ts'
import { SetUp } from '../pages/account/set-up.tsx'

/** Replaces every page of an organisation that requires two-factor sign-in, for members who have not set it up. */
export default function RequiredSetUp({ me, name, onDone }: { me: Me; name: string; onDone: () => void }) {
  useTitle('Set up two-factor sign-in')
  return (
    <Stack gap="md">
      <Title order={1}>Set up two-factor sign-in</Title>
      <Text size="sm" maw={560}>
        “{name}” requires its members to sign in with a password and a code from an app on their phone. You can still
        use your account and your other organisations.
      </Text>
      <SetUp me={me} onDone={onDone} />
    </Stack>
  )
}
