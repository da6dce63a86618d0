/* Watch and notify, in every form that the interface has. */
#include "case.h"

#include <pthread.h>

struct heard {
    pthread_mutex_t lock;
    int count, error;
    uint64_t notifier;
    char message[64];
    /* What to answer; none if nobody is to answer. */
    const char *object, *answer;
};

#define HEARD(name, object, answer)                                                                                    \
    struct heard name = {PTHREAD_MUTEX_INITIALIZER, 0, 0, 0, "", object, answer}

static void on_notify(void *arg, uint64_t notify_id, uint64_t handle, uint64_t notifier, void *data, size_t len) {
    struct heard *heard = arg;
    pthread_mutex_lock(&heard->lock);
    heard->count++;
    heard->notifier = notifier;
    snprintf(heard->message, sizeof heard->message, "%.*s", (int)len, (const char *)data);
    pthread_mutex_unlock(&heard->lock);
    if (heard->answer)
        rados_notify_ack(io, heard->object, notify_id, handle, heard->answer, (int)strlen(heard->answer));
}

static void on_error(void *arg, uint64_t cookie, int error) {
    (void)cookie;
    struct heard *heard = arg;
    pthread_mutex_lock(&heard->lock);
    heard->error = error;
    pthread_mutex_unlock(&heard->lock);
}

CASE(notify_returns_the_answers) {
    PUT("notified", "");
    HEARD(first, "notified", "one");
    HEARD(second, "notified", "two");
    uint64_t handles[2];
    OK(rados_watch3(io, "notified", &handles[0], on_notify, on_error, 30, &first));
    OK(rados_watch2(io, "notified", &handles[1], on_notify, on_error, &second));
    TRUE(rados_watch_check(io, handles[0]) >= 0);
    char *reply;
    size_t reply_len, acks_len, timeouts_len;
    struct notify_ack_t *acks;
    struct notify_timeout_t *timeouts;
    OK(rados_notify2(io, "notified", TEXT("message"), 10000, &reply, &reply_len));
    OK(rados_decode_notify_response(reply, reply_len, &acks, &acks_len, &timeouts, &timeouts_len));
    EQ(acks_len, 2);
    EQ(timeouts_len, 0);
    for (size_t i = 0; i < 2; i++) {
        EQ(acks[i].notifier_id, rados_get_instance_id(cluster));
        const char *want = acks[i].cookie == handles[0] ? "one" : "two";
        check_bytes(acks[i].payload, acks[i].payload_len, want, 3, "payload", __FILE__, __LINE__);
    }
    rados_free_notify_response(acks, acks_len, timeouts);
    rados_buffer_free(reply);
    BYTES(first.message, strlen(first.message), "message");
    EQ(first.count, 1);
    EQ(second.count, 1);
    EQ(first.notifier, rados_get_instance_id(cluster));
    OK(rados_unwatch2(io, handles[0]));
    OK(rados_unwatch2(io, handles[1]));
}

CASE(who_does_not_answer_is_named) {
    PUT("silent", "");
    HEARD(answers, "silent", "here");
    HEARD(silent, "silent", NULL);
    uint64_t handles[2];
    OK(rados_watch2(io, "silent", &handles[0], on_notify, on_error, &answers));
    OK(rados_watch2(io, "silent", &handles[1], on_notify, on_error, &silent));
    char *reply = NULL;
    size_t reply_len, acks_len, timeouts_len;
    struct notify_ack_t *acks;
    struct notify_timeout_t *timeouts;
    EQ(rados_notify2(io, "silent", TEXT("x"), 1000, &reply, &reply_len), -ETIMEDOUT);
    OK(rados_decode_notify_response(reply, reply_len, &acks, &acks_len, &timeouts, &timeouts_len));
    EQ(acks_len, 1);
    EQ(timeouts_len, 1);
    EQ(acks[0].cookie, handles[0]);
    EQ(timeouts[0].cookie, handles[1]);
    rados_free_notify_response(acks, acks_len, timeouts);
    rados_buffer_free(reply);
    EQ(silent.count, 1);
    OK(rados_unwatch2(io, handles[0]));
    OK(rados_unwatch2(io, handles[1]));
}

CASE(asynchronous_watch_and_notify) {
    PUT("aio_watch", "");
    HEARD(heard, "aio_watch", "yes");
    uint64_t handle;
    rados_completion_t done;
    OK(rados_aio_create_completion2(NULL, NULL, &done));
    OK(rados_aio_watch2(io, "aio_watch", done, &handle, on_notify, on_error, 20, &heard));
    rados_aio_wait_for_complete(done);
    OK(rados_aio_get_return_value(done));
    rados_aio_release(done);
    char *reply;
    size_t reply_len;
    OK(rados_aio_create_completion2(NULL, NULL, &done));
    OK(rados_aio_notify(io, "aio_watch", done, TEXT("async"), 10000, &reply, &reply_len));
    rados_aio_wait_for_complete(done);
    OK(rados_aio_get_return_value(done));
    rados_aio_release(done);
    BYTES(heard.message, strlen(heard.message), "async");
    TRUE(reply_len > 0);
    rados_buffer_free(reply);
    OK(rados_watch_flush(cluster));
    OK(rados_aio_create_completion2(NULL, NULL, &done));
    OK(rados_aio_unwatch(io, handle, done));
    rados_aio_wait_for_complete(done);
    OK(rados_aio_get_return_value(done));
    rados_aio_release(done);
    OK(rados_notify2(io, "aio_watch", TEXT("nobody"), 10000, NULL, NULL));
    EQ(heard.count, 1);
}

CASE(watches_of_missing_objects) {
    HEARD(heard, "missing", NULL);
    uint64_t handle;
    EQ(rados_watch2(io, "missing", &handle, on_notify, on_error, &heard), -ENOENT);
    EQ(rados_notify2(io, "missing", TEXT("x"), 1000, NULL, NULL), -ENOENT);
}

CASE(removal_breaks_a_watch) {
    PUT("broken", "");
    HEARD(heard, "broken", NULL);
    uint64_t handle;
    OK(rados_watch2(io, "broken", &handle, on_notify, on_error, &heard));
    OK(rados_remove(io, "broken"));
    int error = 0;
    for (int i = 0; i < 1000 && !error; i++) {
        usleep(10000);
        pthread_mutex_lock(&heard.lock);
        error = heard.error;
        pthread_mutex_unlock(&heard.lock);
    }
    EQ(error, -ENOTCONN);
    EQ(rados_watch_check(io, handle), -ENOTCONN);
    rados_unwatch2(io, handle);
}
