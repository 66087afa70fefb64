import { Anchor, PasswordInput, Stack, Text, TextInput, Title } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { Link, useLocation, useSearchParams } from 'wouter'
import { ApiError, callAuth } from '../../api.ts'
import { Form } from '../../components/form.tsx'
import { useTitle } from '../../components/title.ts'
import { usePublicSettings } from '../../session.tsx'
import { InvitationNote } from './invitation-note.tsx'

const minPassword = 10

/** Rethrows an error; that of a known address says what to do, and has no request to report. */
function explainTaken(error: Error): never {
  if (!(error instanceof ApiError) || !error.code.startsWith('USER_ALREADY_EXISTS')) throw error
  const message = 'There is already an account with this email address. Sign in below, or reset your password there.'
  throw new ApiError(error.status, error.code, message, 'email', null)
}

export default function SignUp() {
  useTitle('Create an account')
  const [search] = useSearchParams()
  const next = search.get('next')
  const [, navigate] = useLocation()
  const queries = useQueryClient()
  const settings = usePublicSettings()
  const [name, setName] = useState('')
  const [email, setEmail] = useState('')
  const [password, setPassword] = useState('')
  const signUp = useMutation({
    mutationFn: () => callAuth('sign-up/email', { name, email, password }).catch(explainTaken),
    onSuccess: () => {
      queries.clear()
      if (next?.startsWith('/dashboard/')) location.assign(next)
      else navigate('/welcome')
    },
  })
  return (
    <Stack>
      <Title order={1}>Create an account</Title>
      <InvitationNote />
      {settings.data?.sign_up === 'invitation' && (
        <Text size="sm" c="dimmed">
          Sign-up is by invitation only. Use the email address that was invited.
        </Text>
      )}
      <Form mutation={signUp} submit="Create account" fullWidth>
        <TextInput
          label="Name"
          autoComplete="name"
          required
          maxLength={100}
          value={name}
          onChange={event => setName(event.currentTarget.value)}
        />
        <TextInput
          label="Email"
          type="email"
          autoComplete="username"
          required
          value={email}
          onChange={event => setEmail(event.currentTarget.value)}
        />
        <PasswordInput
          label="Password"
          description={`At least ${minPassword} characters.`}
          autoComplete="new-password"
          required
          minLength={minPassword}
          maxLength={128}
          value={password}
          onChange={event => setPassword(event.currentTarget.value)}
        />
      </Form>
      <Text size="sm">
        Already have an account?{' '}
        <Anchor component={Link} href={`/sign-in${location.search}`} size="sm" underline="always">
          Sign in
        </Anchor>
      </Text>
    </Stack>
  )
}
