use super::*;

/// Follows numbers to a number that leads to none.
fn last_of(first: u32) -> impl FnMut(&Reads<u32, Option<u32>>) -> Step<u32, u32> {
    move |reads| {
        let mut last = first;
        while let Some(next) = reads.find(&last)? {
            last = *next;
        }
        Ok(last)
    }
}

#[test]
fn a_decision_is_evaluated_again_until_it_needs_no_read() {
    let mut asked = Vec::new();
    let answer = |read: &u32| {
        asked.push(*read);
        (*read < 3).then(|| read + 1)
    };
    assert_eq!(decide_with(answer, last_of(1)), 3);
    assert_eq!(asked, [1, 2, 3]);
}

#[test]
fn joined_steps_need_the_reads_of_all_of_them_once() {
    let reads = Reads::<u32, u32>::default();
    let steps = [2, 1, 2].map(|read| reads.find(&read));
    assert_eq!(join_steps(steps), Err(Needs(vec![2, 1])));
    assert_eq!(join_steps([Ok::<_, Needs<u32>>(7), Ok(8)]), Ok(vec![7, 8]));
}
