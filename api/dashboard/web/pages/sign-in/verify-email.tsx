import { Button, Stack, Text, Title } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import { Link, useSearchParams } from 'wouter'
import { call, queryText } from '../../api.ts'
import { Failure, Loading } from '../../components/states.tsx'
import { useTitle } from '../../components/title.ts'

export default function VerifyEmail() {
  useTitle('Confirm your email address')
  const [search] = useSearchParams()
  const queries = useQueryClient()
  const verify = useMutation({
    mutationFn: () =>
      call<{ user?: object | null }>(`/dashboard/api/auth/verify-email${queryText({ token: search.get('token') })}`),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['me'] }),
  })
  // The link works once, and React may run an effect twice.
  const begun = useRef(false)
  useEffect(() => {
    if (begun.current) return
    begun.current = true
    verify.mutate()
  }, [verify.mutate])
  return (
    <Stack>
      <Title order={1}>Confirm your email address</Title>
      {verify.isPending && <Loading rows={1} />}
      {verify.error && <Failure error={verify.error} />}
      {verify.isSuccess && (
        <Text role="status">
          {/* The answer to the first link of a change of address has no person: nothing is changed yet. */}
          {verify.data.user === undefined
            ? 'The change is approved. Now open the link that we sent to your new address.'
            : 'Your email address is confirmed. You can now create live keys, add credits and invite others.'}
        </Text>
      )}
      <Button component={Link} href="/" variant={verify.isSuccess ? 'filled' : 'default'}>
        Go to the dashboard
      </Button>
    </Stack>
  )
}
