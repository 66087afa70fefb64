import { Anchor, Stack, Text, TextInput, Title } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { Link } from 'wouter'
import { callAuth } from '../api.ts'
import { Form } from '../components/form.tsx'
import { useTitle } from '../components/title.ts'

export default function ForgotPassword() {
  useTitle('Forgotten password')
  const [email, setEmail] = useState('')
  const ask = useMutation({ mutationFn: () => callAuth('request-password-reset', { email }) })
  return (
    <Stack>
      <Title order={1}>Forgotten password</Title>
      {ask.isSuccess ? (
        <Text role="status">
          If there is an account for {email}, a link to choose a new password is on its way. It holds for one hour.
        </Text>
      ) : (
        <Form mutation={ask} submit="Send the link" fullWidth>
          <TextInput
            label="Email"
            type="email"
            autoComplete="username"
            required
            value={email}
            onChange={event => setEmail(event.currentTarget.value)}
          />
        </Form>
      )}
      <Anchor component={Link} href="/sign-in" size="sm">
        Back to the sign-in
      </Anchor>
    </Stack>
  )
}
